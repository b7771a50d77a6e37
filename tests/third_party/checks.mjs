// Runs named checks one after the other, and prints the failed ones and the counts.

/** Default time limit of a check, in milliseconds. */
const PATIENCE = 30_000;

export function expect(holds, what) {
  if (!holds) throw new Error(what);
}

function patient(check, patience) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('the check did not end in time')), patience);
  });
  return Promise.race([check(), late]).finally(() => clearTimeout(timer));
}

/** Runs checks, each for at most `patience` milliseconds, and ends the process. */
export async function run(checks, patience = PATIENCE) {
  let [passed, failed] = [0, 0];
  for (const [name, check] of Object.entries(checks)) {
    try {
      await patient(check, patience);
      passed += 1;
    } catch (error) {
      failed += 1;
      console.log(`failed: ${name}: ${error instanceof Error ? error.message : JSON.stringify(error)}`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  // Clients of failed checks may still hold connections.
  process.exit(failed === 0 && passed > 0 ? 0 : 1);
}

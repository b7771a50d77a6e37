import { graphql, INBOX } from "./api";
import { expect, test } from "./console";
import { BINARY } from "./control_plane";
import { activeInbox, statusOf } from "./inbox";
import { Program } from "./program";

const RATE = 20;
const WITHIN_MS = 1000;
/** A stall of the machine delays the demo too, so a late measurement is repeated up to this number. */
const MEASUREMENTS = 3;

test("pausing the subscription stops the demo's intake within a second", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  const demo = new Program(BINARY, ["demo", "--url", console.url, "--rate", String(RATE), "--finish", "leave"]);
  try {
    const before = new Date().toISOString();
    await demo.until(async () => (await started(console.url, id, before)) > 0, 30_000);
    await console.open(`/subscriptions/${id}`, INBOX);
    let [late, measurements] = [Number.POSITIVE_INFINITY, 0];
    while (late > 0 && measurements < MEASUREMENTS) {
      measurements += 1;
      await page.getByRole("button", { name: "Pause" }).click();
      await expect(page.getByText(`${INBOX} is paused.`)).toBeVisible();
      const paused = Date.now();
      expect((await statusOf(console.url, id)).status).toBe("PAUSED");
      const stopped = new Date(paused + WITHIN_MS).toISOString();
      // As long as the intake may last, and then the time of several messages.
      await page.waitForTimeout(3 * WITHIN_MS);
      late = await started(console.url, id, stopped);

      const resumed = new Date().toISOString();
      await page.getByRole("button", { name: "Resume" }).click();
      await expect.poll(() => started(console.url, id, resumed)).toBeGreaterThan(0);
    }
    expect(late).toBe(0);
  } finally {
    await demo.end("SIGINT", 30_000);
  }
});

/** Returns the number of executions that the subscription started after a time. */
async function started(url: string, parent: string, after: string): Promise<number> {
  const { executions } = await graphql<{ executions: { totalCount: { value: number } } }>(
    url,
    `query ($filter: ExecutionFilter!) { executions(filter: $filter, first: 1) { totalCount { value } } }`,
    { filter: { parentExecutionId: parent, startedAfter: after } },
  );
  return executions.totalCount.value;
}

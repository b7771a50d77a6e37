// graphile-worker: adds jobs that do nothing, runs all of them, and prints the seconds of the run.
// Arguments: DSN, number of jobs, connections of the pool, size of the local queue (-1: none).

const { Pool } = require("pg");
const { runMigrations, run } = require("graphile-worker");

const [dsn, ...numbers] = process.argv.slice(2);
const [jobs, connections, queue] = numbers.map(Number);

async function main() {
  const pool = new Pool({ connectionString: dsn, max: connections });
  pool.on("error", () => {});
  await runMigrations({ pgPool: pool });
  await pool.query(
    `SELECT graphile_worker.add_job('noop', json_build_object('n', n)) FROM generate_series(1, $1::int) AS n`,
    [jobs],
  );
  await pool.query("VACUUM ANALYZE graphile_worker._private_jobs");
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  const batched = queue > 0 ? { localQueue: { size: queue }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {};
  const begun = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  const runner = await run({
    pgPool: pool,
    noHandleSignals: true,
    logger: new (require("graphile-worker").Logger)(() => () => {}),
    taskList: {
      noop: () => {
        done += 1;
        if (done === jobs) finish();
      },
    },
    preset: { worker: { concurrentJobs: queue > 0 ? queue : connections, pollInterval: 100, ...batched } },
  });
  await finished;
  // The last jobs are settled before the runner has stopped.
  await runner.stop();
  const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
  const used = process.cpuUsage(cpu);
  const left = await pool.query("SELECT count(*)::int AS count FROM graphile_worker._private_jobs");
  if (left.rows[0].count !== 0) throw new Error(`${left.rows[0].count} jobs are left`);
  console.log(JSON.stringify({ seconds, cpuSeconds: (used.user + used.system) / 1e6 }));
  process.exit(0);
}

main();

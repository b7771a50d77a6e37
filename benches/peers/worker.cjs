// graphile-worker: adds jobs that do nothing, runs all of them, and prints the seconds of the run.
// Arguments: DSN, number of jobs, connections of the pool, size of the local queue (-1: none).

const { Pool } = require("pg");
const { runMigrations, run } = require("graphile-worker");

const [dsn, ...numbers] = process.argv.slice(2);
const [jobs, connections, queue] = numbers.map(Number);

async function main() {
  const pool = new Pool({ connectionString: dsn, max: connections });
  const ignore = () => {};
  pool.on("error", ignore);
  pool.on("connect", (client) => client.on("error", ignore));
  await runMigrations({ pgPool: pool });
  await pool.query(
    `SELECT graphile_worker.add_jobs(ARRAY(
       SELECT ('noop', json_build_object('n', n), NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
       FROM generate_series(1, $1::int) AS n))`,
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
  // A job that has run is settled a little later.
  const settled = `SELECT NOT EXISTS (SELECT FROM graphile_worker._private_jobs) AS all`;
  while (!(await pool.query(settled)).rows[0].all) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
  const used = process.cpuUsage(cpu);
  await runner.stop();
  console.log(JSON.stringify({ seconds, cpuSeconds: (used.user + used.system) / 1e6 }));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

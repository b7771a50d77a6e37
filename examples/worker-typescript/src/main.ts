// node dist/main.js send KEY   starts an execution, unless one was started with the same key
// node dist/main.js work       runs executions and writes every event to the journal, until it is stopped

import { parseArgs } from "node:util";

import { Api, Refused } from "./api.js";
import { ExecuteDocument } from "./gql/graphql.js";
import { Journal } from "./journal.js";
import { Worker } from "./worker.js";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: "string", default: "http://127.0.0.1:8082/graphql" },
    pool: { type: "string", default: "shared" },
    journal: { type: "string", default: "journal.jsonl" },
    "lease-seconds": { type: "string", default: "30" },
    "step-seconds": { type: "string", default: "0.1" },
  },
});
const api = new Api(values.url);
const [command, key] = positionals;

try {
  if (command === "send" && key !== undefined) {
    const input = {
      entry: { path: "samples/orders/process" },
      workload: { order: { id: key } },
      dedup: { key, windowSeconds: 3600 },
    };
    const { outcome, executionId } = await api.send(ExecuteDocument, "execute", { input });
    console.log(outcome, executionId);
  } else if (command === "work") {
    const leaseSeconds = Number(values["lease-seconds"]);
    const worker = new Worker(api, { pool: values.pool, leaseSeconds, stepSeconds: Number(values["step-seconds"]) });
    await Promise.all([worker.work(), worker.follow(new Journal(values.journal))]);
  } else {
    console.error("usage: main.js [--url URL] send KEY | work");
    process.exitCode = 2;
  }
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.error(`the server refused a request: ${error.message}`);
  process.exit(1);
}

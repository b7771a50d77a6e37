// A worker: claims entries of a pool, runs their executions step by step, and follows all events live.

import { setTimeout as sleep } from "node:timers/promises";

import { Refused, type Api } from "./api.js";
import {
  ClaimDocument,
  DeliveredDocument,
  FailedDocument,
  ReportDocument,
  ReserveIdsDocument,
  RunDocument,
  type ClaimMutation,
  type EventInput,
  type OutboxClaimRef,
} from "./gql/graphql.js";
import { type Journal } from "./journal.js";

export interface Options {
  pool: string;
  leaseSeconds: number;
  stepSeconds: number;
}
type Claim = NonNullable<ClaimMutation["claimOutbox"]>["claims"][number];
/** An event without its ids. */
type Draft = Omit<EventInput, "eventId" | "executionId">;

const ENDED = new Set<string>(["COMPLETED", "FAILED", "CANCELLED"]);
const POLL_SECONDS = 5;

export class Worker {
  readonly #api: Api;
  readonly #options: Options;
  #wake = new AbortController();

  constructor(api: Api, options: Options) {
    this.#api = api;
    this.#options = options;
  }

  /**
   * Claims entries of the pool and runs their executions. A started execution wakes it; the poll finds the entries
   * whose wake-up was lost and those whose lease expired.
   */
  async work(): Promise<never> {
    const { pool, leaseSeconds } = this.#options;
    const claimant = `worker-typescript-${process.pid}`;
    const input = { select: { filter: { pools: [pool] } }, claimant, limit: 10, leaseSeconds };
    for (;;) {
      this.#wake = new AbortController();
      const { claims } = await this.#api.send(ClaimDocument, "claimOutbox", { input });
      await Promise.all(claims.map((claim) => this.#handle(claim)));
      if (claims.length === 0) {
        const pause = Math.min(POLL_SECONDS, leaseSeconds) * 1000;
        await sleep(pause, undefined, { signal: this.#wake.signal }).catch(() => undefined);
      }
    }
  }

  /** Runs the execution of a claimed entry, and settles the entry. */
  async #handle({ entryId, lease, executionId }: Claim): Promise<void> {
    const held = { entryId, lease };
    try {
      if (executionId === null || executionId === undefined) throw new Refused("the entry has no execution");
      await this.#run(executionId, held);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      // The lease was lost, or the execution can't continue. If the lease was lost, the next call is refused too.
      console.error(`entry ${entryId}: ${error.message}`);
      const input = { failures: [{ ...held, error: error.message }] };
      await this.#api.send(FailedDocument, "markOutboxFailed", { input }).catch(report);
    }
  }

  /**
   * Runs the steps that are not done yet, in the order of the document. The last report also completes the execution
   * and settles the entry.
   */
  async #run(id: string, held: OutboxClaimRef): Promise<void> {
    // Read by itself: an execution that can't be read fails its own entry, and not those that were claimed with it.
    const { status, workload, catalogEntry, steps } = await this.#api.send(RunDocument, "execution", { id });
    const isDone = (name: string) =>
      steps?.nodes.some((step) => step.name === name && ["COMPLETED", "SKIPPED"].includes(step.status)) ?? false;
    const names = (catalogEntry?.workflow?.steps ?? []).map(({ name }) => name);
    const left = names.filter((name) => !isDone(name));
    // Three events for each step, and one for the end. A later cancellation has a larger id, so it stays.
    const count = 3 * left.length + 1;
    const { eventIds } = await this.#api.send(ReserveIdsDocument, "reserveEventIds", { count });
    let current: string = status;
    let settled = false;
    // The execution can be cancelled at any time. If the lease is lost, another worker continues it.
    while (!ENDED.has(current) && !settled) {
      const name = left.shift();
      const drafts = name === undefined ? [] : await this.#step(name, workload);
      settled = left.length === 0;
      if (settled) drafts.push({ type: "playbook.completed", status: "COMPLETED" });
      const events = drafts.map((draft) => ({ ...draft, executionId: id, eventId: eventIds.shift()! }));
      current = await this.#report(events, held, settled);
    }
    if (settled) console.error(`execution ${id} is ${current}`);
    else await this.#api.send(DeliveredDocument, "markOutboxPublished", { input: { claims: [held] } });
  }

  /** Does the work of a step, and returns its events. A real worker calls the step's tool. */
  async #step(name: string, workload: unknown): Promise<Draft[]> {
    await sleep(this.#options.stepSeconds * 1000);
    const meta = { command_id: `${name}:1`, attempt: 1 };
    const result = { data: { step: name, fields: Object.keys(workload ?? {}).length } };
    return [
      { type: "step.enter", nodeName: name, status: "ENTERED" },
      { type: "call.done", nodeName: name, status: "COMPLETED", meta, result },
      { type: "command.completed", nodeName: name, status: "success", meta },
    ];
  }

  /**
   * Stores events of an execution, unless another worker has claimed its entry, and settles the entry or renews its
   * lease. Returns the status of the execution. A repeat has the same ids, so no event is stored twice.
   */
  async #report(events: EventInput[], claim: OutboxClaimRef, settle: boolean): Promise<string> {
    const variables = { events, claim, settle, leaseSeconds: this.#options.leaseSeconds };
    const { executions } = await this.#api.send(ReportDocument, "projectEvents", variables);
    if (executions[0] === undefined) throw new Refused("the execution does not exist");
    return executions[0].status;
  }

  /** Writes every event to the journal. Continues after the last stored one when the connection returns. */
  async follow(journal: Journal): Promise<never> {
    for (;;) {
      const start = journal.cursor === undefined ? { beginning: true } : { after: journal.cursor };
      try {
        for await (const item of this.#api.follow(start)) {
          if (item.__typename === "StreamGap") console.error(`shard ${item.shard} has a gap: ${item.reason}`);
          if (!("cursor" in item) || !journal.add(item)) continue;
          if (item.__typename === "EventDelivery" && item.event.type === "playbook_started") this.#wake.abort();
        }
        console.error("the live stream ended");
      } catch (error) {
        if (error instanceof Refused) throw error;
        report(error);
      }
      await sleep(500);
    }
  }
}

/** Logs an error. graphql-ws rejects with the events of the WebSocket: an error has a message, a close has a code. */
function report(error: unknown): void {
  const { message, code, reason } = error as { message?: string; code?: number; reason?: string };
  console.error(message ?? `the connection was closed: ${code} ${reason}`);
}

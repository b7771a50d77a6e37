// A worker: claims entries of a pool, runs their executions step by step, and follows all events live.

import { setTimeout as sleep } from "node:timers/promises";

import { Refused, type Api } from "./api.js";
import {
  ClaimDocument,
  DeliveredDocument,
  FailedDocument,
  ProjectDocument,
  RenewDocument,
  ReserveIdsDocument,
  RunDocument,
  type ClaimMutation,
  type EventInput,
  type OutboxClaimRef,
  type RunQuery,
} from "./gql/graphql.js";
import { type Journal } from "./journal.js";

export interface Options {
  pool: string;
  leaseSeconds: number;
  stepSeconds: number;
}
type Claim = NonNullable<ClaimMutation["claimOutbox"]>["claims"][number];
type State = NonNullable<RunQuery["execution"]>;
/** An event before it is reported, which gives it its ids. */
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
      console.error(`execution ${executionId}: ${error.message}`);
      const input = { failures: [{ ...held, error: error.message }] };
      await this.#api.send(FailedDocument, "markOutboxFailed", { input }).catch(report);
    }
  }

  /** Runs the steps that are not done yet, in the order of the document, completes the execution, and settles the entry. */
  async #run(execution: string, held: OutboxClaimRef): Promise<void> {
    let state = await this.#state(execution);
    for (const { name } of state.catalogEntry?.workflow?.steps ?? []) {
      // The execution can be cancelled at any time. If the lease is lost, another worker continues it.
      const input = { claims: [held], leaseSeconds: this.#options.leaseSeconds };
      await this.#api.send(RenewDocument, "renewOutboxLeases", { input });
      state = await this.#state(execution);
      if (ENDED.has(state.status)) break;
      const status = state.steps?.nodes.find((step) => step.name === name)?.status;
      if (status === "COMPLETED" || status === "SKIPPED") continue;
      const meta = { command_id: `${name}:1`, attempt: 1 };
      const data = await this.#step(name, state.workload);
      await this.#report(execution, held, [
        { type: "step.enter", nodeName: name, status: "ENTERED" },
        { type: "call.done", nodeName: name, status: "COMPLETED", meta, result: { data } },
        { type: "command.completed", nodeName: name, status: "success", meta },
      ]);
    }
    if (ENDED.has(state.status)) {
      await this.#api.send(DeliveredDocument, "markOutboxPublished", { input: { claims: [held] } });
      return;
    }
    await this.#report(execution, held, [{ type: "playbook.completed", status: "COMPLETED" }], true);
    console.error(`execution ${execution} is completed`);
  }

  #state(id: string): Promise<State> {
    return this.#api.send(RunDocument, "execution", { id });
  }

  /** Does the work of a step. A real worker calls the step's tool. */
  async #step(name: string, workload: unknown): Promise<unknown> {
    await sleep(this.#options.stepSeconds * 1000);
    return { step: name, fields: Object.keys(workload ?? {}).length };
  }

  /**
   * Stores events of an execution, unless another worker has claimed its entry. A repeat has the same ids, so no event is
   * stored twice.
   */
  async #report(executionId: string, claim: OutboxClaimRef, drafts: Draft[], settle = false): Promise<void> {
    const { eventIds } = await this.#api.send(ReserveIdsDocument, "reserveEventIds", { count: drafts.length });
    const events = drafts.map((draft, index) => ({ ...draft, executionId, eventId: eventIds[index]! }));
    await this.#api.send(ProjectDocument, "projectEvents", { events, claim, settle });
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

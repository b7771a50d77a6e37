/** Iterations of a loop, from the events of its commands. */

import { CALLED, COMPLETED, FAILED, STARTED } from "./command_events";
import { compareIds } from "./event_ids";
import type { StepState } from "./live_execution";
import type { StepEventsQuery } from "./operations.generated";

export type IterationEvent = NonNullable<StepEventsQuery["events"]>["nodes"][number];

export interface Iteration {
  /** Id of the command that ran it. */
  command: string;
  /** Name in the list: its index, for a row of a cursor loop after that of its frame; else the command. */
  name: string;
  status: StepState["status"];
  error: string | null;
  startedAt: string | null;
  endedAt: string | null;
  /** Duration that its last event reported, in seconds. */
  seconds: number | null;
}

const ENTERED = ["step.enter", "step_enter", "step_started"];

/** Types of the events that a list of iterations needs. Results of calls can be large, so only failed ones are read. */
export const ITERATION_TYPES = [...ENTERED, "command.issued", ...STARTED, ...COMPLETED, ...FAILED];

/** Statuses of events of failures. */
export const FAILURE_STATUSES = ["FAILED", "ERROR", "failed", "error"];

interface Found extends Iteration {
  /** Whether the call of the command returned an error. Its completion does not clear it. */
  calledWithError: boolean;
  /** Whether the command only takes the rows of a frame. */
  isClaim: boolean;
}

/** Returns the iterations of the current run, the failed ones first. Events may be in any order, and several times. */
export function iterationsOf(events: readonly IterationEvent[]): Iteration[] {
  let found = new Map<string, Found>();
  const ordered = new Map(events.map((event) => [event.eventId, event]));
  for (const event of [...ordered.values()].toSorted((a, b) => compareIds(a.eventId, b.eventId))) {
    const command = commandOf(event);
    if (command !== null) {
      found.set(command, advanced(found.get(command) ?? begun(command, event), event));
    } else if (ENTERED.includes(event.type) && textAt(event.meta, "worker_id") === null) {
      found = new Map();
    }
  }
  const isFailed = ({ status }: Iteration) => Number(status === "FAILED");
  return [...found.values()].filter(({ isClaim }) => !isClaim).toSorted((a, b) => isFailed(b) - isFailed(a));
}

function begun(command: string, event: IterationEvent): Found {
  const index = /:i(\d+)$/.exec(command)?.[1] ?? null;
  const cursor = partOf(event.meta, "cursor");
  const frame = partOf(cursor, "frame");
  const row = index === null ? command : index;
  return {
    command,
    name: typeof frame === "number" ? `Frame ${frame}, row ${row}` : row,
    status: "COMMAND_ISSUED",
    error: null,
    startedAt: null,
    endedAt: null,
    seconds: null,
    calledWithError: false,
    isClaim: partOf(cursor, "phase") === "claim",
  };
}

function advanced(before: Found, event: IterationEvent): Found {
  const { type, createdAt, durationSeconds } = event;
  if (STARTED.includes(type)) {
    return { ...before, status: "COMMAND_STARTED", startedAt: createdAt, endedAt: null };
  }
  const ended = { endedAt: createdAt, seconds: durationSeconds ?? before.seconds };
  const called = CALLED.includes(type);
  if (FAILED.includes(type) || ((called || COMPLETED.includes(type)) && isFailure(event))) {
    const calledWithError = before.calledWithError || called;
    return { ...before, ...ended, status: "FAILED", error: errorOf(event) ?? before.error, calledWithError };
  }
  if (COMPLETED.includes(type)) {
    return before.calledWithError ? { ...before, ...ended } : { ...before, ...ended, status: "COMPLETED", error: null };
  }
  return before;
}

/** The command is in the metadata, or in the result of an event of NoETL's workers. */
function commandOf({ meta, result }: IterationEvent): string | null {
  const places = [meta, partOf(result, "context"), partOf(result, "data")];
  return firstOf(places.map((place) => textAt(place, "command_id")));
}

function isFailure({ status, result }: IterationEvent): boolean {
  const statuses = [status, textAt(result, "status"), textAt(partOf(result, "context"), "status")];
  return statuses.some((text) => text !== null && FAILURE_STATUSES.includes(text));
}

function errorOf({ error, meta, result }: IterationEvent): string | null {
  const places = [meta, partOf(result, "context"), result];
  return firstOf([error, ...places.map((place) => textAt(place, "error"))]);
}

function firstOf(texts: readonly (string | null)[]): string | null {
  return texts.find((text) => text !== null && text !== "") ?? null;
}

function partOf(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[key] : undefined;
}

/** Returns a text or a number as text, and another value as JSON; null if there is none. */
function textAt(value: unknown, key: string): string | null {
  const part = partOf(value, key) ?? null;
  return part === null || typeof part === "string" ? part : JSON.stringify(part);
}

/**
 * Live health of the system. The page follows it from the first use until it is closed, and keeps the figures of the last
 * hour, so a chart does not start empty when its view is opened again.
 */

import { useEffect, useSyncExternalStore } from "react";

import type { ApiError } from "./errors";
import { follow, type LiveState } from "./live";
import { signInState, subscribeSignIn } from "./token";
import { SystemStatusDocument, type SystemStatusSubscription } from "./system_status.generated";

export type SystemStatus = SystemStatusSubscription["systemStatus"];

/** Figures at one time, for charts. Times are in seconds since 1970. */
export interface Sample {
  at: number;
  eventsPerSecond: number | null;
  lagSeconds: number;
  outboxPending: number | null;
  /** Longest round trip to a database. */
  latencyMilliseconds: number | null;
  /** Connections of the replica to all databases that are in use. */
  busyConnections: number;
  /** Age of the oldest open write transaction; 0 if there is none. */
  transactionSeconds: number;
}

export interface SystemStatusHistory {
  status: SystemStatus | null;
  state: LiveState;
  error: ApiError | undefined;
  samples: readonly Sample[];
}

const KEPT_SECONDS = 3_600;

const EMPTY: SystemStatusHistory = { status: null, state: "connecting", error: undefined, samples: [] };

let history = EMPTY;
let following = false;
const listeners = new Set<() => void>();

// The figures belong to the user who was permitted to read them.
let { session } = signInState();
subscribeSignIn(() => {
  if (signInState().session !== session) {
    ({ session } = signInState());
    show(EMPTY);
  }
});

/** Returns the newest status and the figures of the last hour, and draws the caller again after each change. */
export function useSystemStatus(): SystemStatusHistory {
  useEffect(start, []);
  return useSyncExternalStore(listen, () => history);
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function start(): void {
  if (following) {
    return;
  }
  following = true;
  follow(SystemStatusDocument, () => ({}), {
    next: (data) => take(data.systemStatus),
    state: (state, error) => {
      // An ended stream is opened again by the next view that needs it.
      following = state !== "ended";
      show({ state, error });
    },
  });
}

function take(status: SystemStatus): void {
  const sample = sampleOf(status, history.status);
  const samples = [...history.samples.filter((kept) => kept.at > sample.at - KEPT_SECONDS), sample];
  show({ status, samples });
}

function sampleOf(status: SystemStatus, before: SystemStatus | null): Sample {
  return {
    at: Date.parse(status.at) / 1_000,
    eventsPerSecond: before && rate(before, status),
    lagSeconds: Math.max(0, ...status.eventStream.shards.map((shard) => shard.lagSeconds)),
    outboxPending: status.outbox?.pending ?? null,
    latencyMilliseconds: highest(status.shards.map((shard) => shard.latencyMilliseconds)),
    busyConnections: status.shards.reduce((sum, shard) => sum + shard.poolSize - shard.poolIdle, 0),
    transactionSeconds: highest(status.eventStream.shards.map((shard) => shard.oldestOpenTransactionSeconds)) ?? 0,
  };
}

function highest(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? Math.max(...known) : null;
}

function rate(before: SystemStatus, after: SystemStatus): number | null {
  const seconds = (Date.parse(after.at) - Date.parse(before.at)) / 1_000;
  const published = publishedEvents(after) - publishedEvents(before);
  // A lower number means that the feed began again.
  return seconds > 0 && published >= 0 ? published / seconds : null;
}

function publishedEvents(status: SystemStatus): number {
  return status.eventStream.shards.reduce((sum, shard) => sum + Number(shard.publishedEvents), 0);
}

function show(change: Partial<SystemStatusHistory>): void {
  history = { ...history, ...change };
  for (const listener of listeners) {
    listener();
  }
}

/** Judges the health of the system, and says in words what is wrong and what to do. The first warning is the worst. */

import type { SystemStatus } from "../api/system_status";
import { formatDuration, formatItems, formatNumber } from "../ui/format";
import { MAX_LAG_SECONDS, MAX_OUTBOX_AGE_SECONDS } from "./slow_shards";

export interface Warning {
  severity: "problem" | "attention";
  text: string;
  advice: string;
  /** What the warning is about. */
  about: "shards" | "feeds" | "outbox" | "dead entries";
}

/** Age of a transaction above which it needs attention, in seconds. */
const MAX_TRANSACTION_SECONDS = 60;

type FeedShard = SystemStatus["eventStream"]["shards"][number];

/** Returns the warnings about a status, problems first. */
export function warningsOf(status: SystemStatus): Warning[] {
  const warnings = [
    ...databaseWarnings(status),
    ...streamWarnings(status),
    ...reachableFeeds(status).flatMap(feedWarnings),
    ...outboxWarnings(status),
  ];
  return warnings.sort((a, b) => Number(b.severity === "problem") - Number(a.severity === "problem"));
}

function databaseWarnings(status: SystemStatus): Warning[] {
  return status.shards
    .filter((shard) => !shard.available)
    .map((shard) => ({
      severity: "problem",
      text: `The database of ${shard.error ?? `shard ${shard.shard} can't be reached`}.`,
      advice: "Its executions and events are missing in every list until it is back. Check the database server.",
      about: "shards",
    }));
}

function streamWarnings({ eventStream }: SystemStatus): Warning[] {
  if (!eventStream.enabled) {
    return [attention("feeds", "The server runs without a broker.", "Set the broker's address to publish events.")];
  }
  if (!eventStream.connected) {
    return [problem("feeds", "The broker can't be reached.", "Events are stored, and published when the broker is back. Check NATS.")];
  }
  return [];
}

/** Returns the feeds whose database can be reached. The others publish nothing until it is back, which has its own warning. */
function reachableFeeds({ shards, eventStream }: SystemStatus): FeedShard[] {
  const unreachable = new Set(shards.filter(({ available }) => !available).map(({ shard }) => shard));
  return eventStream.shards.filter(({ shard }) => !unreachable.has(shard));
}

function feedWarnings(shard: FeedShard): Warning[] {
  const warnings: Warning[] = [];
  const name = `shard ${shard.shard}`;
  if (shard.leader === null) {
    warnings.push(problem("feeds", `No replica publishes the events of ${name}.`, "Start a replica, or wait until a lease expires."));
  }
  if (shard.lastError !== null) {
    warnings.push(problem("feeds", `Publishing the events of ${name} fails: ${shard.lastError}`, "Check the broker and its storage."));
  }
  if (shard.lagSeconds > MAX_LAG_SECONDS) {
    const lag = `${formatDuration(shard.lagSeconds)} (${formatItems(shard.lagEvents, "event")})`;
    warnings.push(attention("feeds", `The event feed of ${name} has a lag of ${lag}.`, "Look for an open transaction or a slow broker."));
  }
  if ((shard.oldestOpenTransactionSeconds ?? 0) > MAX_TRANSACTION_SECONDS) {
    const age = formatDuration(shard.oldestOpenTransactionSeconds ?? 0);
    warnings.push(attention("feeds", `A write transaction on ${name} is open for ${age}.`, "It holds back the event feed. End its session."));
  }
  if ((shard.oldestPreparedTransactionSeconds ?? 0) > MAX_TRANSACTION_SECONDS) {
    const age = formatDuration(shard.oldestPreparedTransactionSeconds ?? 0);
    warnings.push(attention("feeds", `A prepared transaction on ${name} waits for ${age}.`, "Commit it, or roll it back."));
  }
  return warnings;
}

function outboxWarnings({ outbox }: SystemStatus): Warning[] {
  if (!outbox) {
    return [attention("outbox", "The outbox could not be counted.", "Check the databases of the shards.")];
  }
  const warnings: Warning[] = [];
  if (outbox.dead > 0) {
    const entries = outbox.dead === 1 ? "1 entry is" : `${formatNumber(outbox.dead)} entries are`;
    warnings.push(attention("dead entries", `${entries} not tried any more.`, "Read the last error of these outbox entries, then retry or discard them."));
  }
  const age = outbox.oldestPendingAgeSeconds ?? 0;
  if (age > MAX_OUTBOX_AGE_SECONDS) {
    warnings.push(attention("outbox", `The oldest outbox entry waits for ${formatDuration(age)}.`, "Check that a relay or a worker claims entries."));
  }
  return warnings;
}

function problem(about: Warning["about"], text: string, advice: string): Warning {
  return { severity: "problem", text, advice, about };
}

function attention(about: Warning["about"], text: string, advice: string): Warning {
  return { severity: "attention", text, advice, about };
}

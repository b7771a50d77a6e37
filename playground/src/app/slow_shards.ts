/**
 * Says in words which shards are slow, by the round trip to their databases, the lag of their event feeds and the age of
 * their outbox entries. A shard that can't be reached has a warning of its own (`health.ts`).
 */

import type { SystemStatus } from "../api/system_status";
import { formatDuration, formatItems, formatLatency } from "../ui/format";

/**
 * Round trip of a probe above which a database is slow, in milliseconds. Between machines of one data centre it takes less
 * than 5 ms. A mutation has several round trips, so above this limit a user waits noticeably.
 */
const MAX_ROUND_TRIP_MS = 50;
/** Lag of a feed above which it needs attention, in seconds. A leader that dies is replaced within 4 seconds. */
export const MAX_LAG_SECONDS = 5;
/** Age of the oldest claimable outbox entry above which it needs attention, in seconds. A relay claims within seconds. */
export const MAX_OUTBOX_AGE_SECONDS = 60;

/** Returns a sentence for each slow shard, or one that says that none is slow; then one for each shard that can't be reached. */
export function slownessInWords(status: SystemStatus): string[] {
  const reached = status.shards.filter(({ available }) => available);
  const slow = reached
    .map(({ shard }) => ({ shard, reasons: reasonsOf(shard, status) }))
    .filter(({ reasons }) => reasons.length > 0)
    .map(({ shard, reasons }) => `Shard ${shard} is slow: ${reasons.join(", ")}.`);
  const unreached = status.shards
    .filter(({ available }) => !available)
    .map(({ shard }) => `Shard ${shard} can't be reached, so its speed is unknown.`);
  const none = reached.length > 0 && slow.length === 0 ? [noneSlow(status, unreached.length > 0)] : [];
  return [...slow, ...none, ...unreached];
}

function reasonsOf(shard: number, { shards, eventStream, outbox }: SystemStatus): string[] {
  const latency = shards.find((one) => one.shard === shard)?.latencyMilliseconds ?? 0;
  const feed = eventStream.shards.find((one) => one.shard === shard);
  const age = outbox?.byShard.find((one) => one.shard === shard)?.oldestPendingAgeSeconds ?? 0;
  return [
    latency > MAX_ROUND_TRIP_MS && `a round trip to its database takes ${formatLatency(latency)}`,
    feed &&
      feed.lagSeconds > MAX_LAG_SECONDS &&
      `its event feed has a lag of ${formatDuration(feed.lagSeconds)} (${formatItems(feed.lagEvents, "event")})`,
    age > MAX_OUTBOX_AGE_SECONDS && `its oldest outbox entry waits for ${formatDuration(age)}`,
  ].filter((reason) => typeof reason === "string");
}

/** Names the limits of what was measured. */
function noneSlow({ eventStream, outbox }: SystemStatus, others: boolean): string {
  const limits = [
    `a round trip takes at most ${MAX_ROUND_TRIP_MS} ms`,
    eventStream.shards.length > 0 && `no feed has a lag of more than ${formatDuration(MAX_LAG_SECONDS)}`,
    outbox && `no outbox entry waits longer than ${formatDuration(MAX_OUTBOX_AGE_SECONDS)}`,
  ].filter((limit) => typeof limit === "string");
  return `No ${others ? "other " : ""}shard is slow: ${limits.join(", ")}.`;
}

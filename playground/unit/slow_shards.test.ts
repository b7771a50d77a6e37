import { expect, test } from "vitest";

import type { SystemStatus } from "../src/api/system_status";
import { slownessInWords } from "../src/app/slow_shards";

interface Measures {
  available?: boolean;
  latency?: number | null;
  lag?: number;
  age?: number | null;
}

/** Returns a status with a shard for each of the measures. */
function statusOf(...measures: Measures[]): SystemStatus {
  return {
    at: "2026-03-02T09:30:00Z",
    shards: measures.map(({ available = true, latency = 0.4 }, shard) => ({
      shard,
      available,
      latencyMilliseconds: latency,
    })),
    eventStream: {
      enabled: true,
      connected: true,
      shards: measures.map(({ lag = 0 }, shard) => ({ shard, lagSeconds: lag, lagEvents: "34" })),
    },
    outbox: { byShard: measures.map(({ age = null }, shard) => ({ shard, oldestPendingAgeSeconds: age })) },
  } as unknown as SystemStatus;
}

const LIMITS = "a round trip takes at most 50 ms, no feed has a lag of more than 5 s, no outbox entry waits longer than 1 min";

test.each([
  ["all are fast", [{}, {}], [`No shard is slow: ${LIMITS}.`]],
  ["all are at the limits", [{ latency: 50, lag: 5, age: 60 }], [`No shard is slow: ${LIMITS}.`]],
  ["a database responds slowly", [{}, { latency: 120 }], ["Shard 1 is slow: a round trip to its database takes 120.0 ms."]],
  ["a feed has a lag", [{ lag: 12 }, {}], ["Shard 0 is slow: its event feed has a lag of 12 s (34 events)."]],
  [
    "two are slow, one of them in all measures",
    [{ latency: 75, lag: 65, age: 300 }, { age: 61 }],
    [
      "Shard 0 is slow: a round trip to its database takes 75.0 ms, its event feed has a lag of 1 min 5 s (34 events), its oldest outbox entry waits for 5 min.",
      "Shard 1 is slow: its oldest outbox entry waits for 1 min 1 s.",
    ],
  ],
  [
    "one can't be reached, and has an old round trip and a lag",
    [{ latency: null }, { available: false, latency: 900, lag: 40 }],
    [`No other shard is slow: ${LIMITS}.`, "Shard 1 can't be reached, so its speed is unknown."],
  ],
  ["none can be reached", [{ available: false }], ["Shard 0 can't be reached, so its speed is unknown."]],
])("shards: %s", (_, measures, sentences) => {
  expect(slownessInWords(statusOf(...measures))).toEqual(sentences);
});

test("without a broker and without a count of the outbox, only the round trips are judged", () => {
  const status = statusOf({});
  const unmeasured = { ...status, eventStream: { ...status.eventStream, shards: [] }, outbox: null };
  expect(slownessInWords(unmeasured)).toEqual(["No shard is slow: a round trip takes at most 50 ms."]);
});

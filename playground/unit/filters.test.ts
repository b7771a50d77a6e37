import { expect, test } from "vitest";

import * as events from "../src/views/events/stream_variables";
import * as executions from "../src/views/executions/filter";
import * as outbox from "../src/views/outbox/filter";
import * as subscriptions from "../src/views/subscriptions/filter";

const NOW = Date.parse("2026-03-02T09:30:00Z");

test.each([
  [{}, {}],
  [{ statuses: "failed,RUNNING,no-status" }, { statuses: ["RUNNING", "FAILED"] }],
  [{ statuses: "no-status" }, {}],
  [{ path: "a/b" }, { path: "a/b" }],
  [{ path: "a/*" }, { pathPrefix: "a/" }],
  [{ path: "*" }, {}],
  [{ labels: "order_id=17" }, { labels: [{ name: "order_id", equals: "17" }] }],
  [{ pool: "gpu, slow", failedSteps: "1", reruns: "0" }, { executionPools: ["gpu", "slow"], hasFailedSteps: true, isRerun: false }],
  [{ pool: ",", failedSteps: "0", reruns: "1" }, { executionPools: [], hasFailedSteps: false, isRerun: true }],
  [{ failedSteps: "yes", reruns: "2" }, {}],
  [{ error: "no answer" }, { errorContains: "no answer" }],
  [{ dedup: "key", id: "123", parent: "5" }, { dedupKey: "key", idPrefix: "123", parentExecutionId: "5" }],
  [{ since: "5m", until: "2026-03-02" }, { startedAfter: "2026-03-02T09:25:00.000Z", startedBefore: "2026-03-02T00:00:00.000Z" }],
  [{ endedSince: "1d", endedUntil: "2h" }, { endedAfter: "2026-03-01T09:30:00.000Z", endedBefore: "2026-03-02T07:30:00.000Z" }],
  [{ since: "yesterday", until: "5 m" }, {}],
])("executions: the address %j", (search, filter) => {
  expect(executions.filterOf(search, NOW)).toEqual(filter);
});

test.each([
  [{ types: "a, b", executions: "1 2", nodes: "", parent: "3" }, { types: ["a", "b"], executionIds: ["1", "2"], parentExecutionId: "3" }],
  [{ statuses: "FAILED" }, { statuses: ["FAILED"] }],
  [{}, {}],
])("events: the address %j", (search, filter) => {
  expect(events.filterOf(search)).toEqual(filter);
});

test.each([
  [undefined, { latest: true }],
  ["beginning", { beginning: true }],
  ["2026-03-02T09:30:00Z", { since: "2026-03-02T09:30:00Z" }],
  [events.fromCursor("abc"), { after: "abc" }],
])("events: the start %j", (from, start) => {
  expect(events.startOf(from)).toEqual(start);
});

test.each([
  [{}, null],
  [{ statuses: "DEAD,none", attempts: "3" }, { statuses: ["DEAD"], minAttempts: 3 }],
  [{ attempts: "-1" }, null],
  [{ execution: "7" }, { executionId: "7" }],
])("outbox: the address %j", (search, filter) => {
  expect(outbox.filterOf(search)).toEqual(filter);
});

test("outbox: an action on some statuses selects those of the filter, or nothing", () => {
  expect(outbox.withStatuses(null, ["DEAD", "FAILED"])).toEqual({ statuses: ["DEAD", "FAILED"] });
  expect(outbox.withStatuses({ statuses: ["DEAD"], minAttempts: 3 }, ["DEAD", "FAILED"])).toEqual({ statuses: ["DEAD"], minAttempts: 3 });
  expect(outbox.withStatuses({ statuses: ["PENDING"] }, ["DEAD"])).toBeNull();
});

const NOT_DEACTIVATED = ["ACTIVE", "PAUSED", "DRAINING", "REGISTERED", "UNKNOWN"];

test.each([
  [{}, { statuses: NOT_DEACTIVATED }],
  [{ statuses: "no-status", path: "a/" }, { statuses: NOT_DEACTIVATED, pathPrefix: "a/" }],
  [{ deactivated: "1" }, null],
  [{ deactivated: "1", path: "a/" }, { pathPrefix: "a/" }],
  [{ deactivated: "1", labels: "area=orders" }, { labels: [{ name: "area", equals: "orders" }] }],
  [{ statuses: "PAUSED", path: "a/" }, { statuses: ["PAUSED"], pathPrefix: "a/" }],
])("subscriptions: the address %j", (search, filter) => {
  expect(subscriptions.filterOf(search)).toEqual(filter);
});

test.each([
  [{ deactivated: "1" }, "All subscriptions."],
  [{}, "All subscriptions that are not deactivated."],
  [{ deactivated: "1", labels: "area=orders" }, "All subscriptions with the labels area=orders."],
  [
    { statuses: "PAUSED", path: "a/", labels: "team" },
    "All subscriptions that are paused and whose path begins with a/ and with the labels team.",
  ],
])("subscriptions: the address %j in words", (search, words) => {
  expect(subscriptions.filterInWords(search)).toBe(words);
});

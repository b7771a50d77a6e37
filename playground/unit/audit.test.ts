import { expect, test } from "vitest";

import { contains, entryOf, entryOfRegistration, entryOfRerun, entryOfRetirement, listsOf } from "../src/views/audit/entry";
import { newestFirst } from "../src/views/audit/newest_first";

const NOW = Date.parse("2026-03-02T09:30:00Z");

test("without an action, all lists but that of starts are read with the same conditions; starts have no reason", () => {
  const { log, reruns, registrations, retirements } = listsOf({ path: "a/b", since: "1h" }, NOW);
  expect(log?.filter).toMatchObject({ nodeNames: ["a/b"], createdAfter: "2026-03-02T08:30:00.000Z" });
  expect(log?.filter.types).toContain("playbook.cancelled");
  expect(log?.filter.types).not.toContain("playbook_started");
  expect(reruns?.filter).toEqual({ isRerun: true, path: "a/b", startedAfter: "2026-03-02T08:30:00.000Z" });
  const path = "a/b";
  expect(registrations).toEqual({ order: "NEWEST", filter: { path, createdAfter: "2026-03-02T08:30:00.000Z" } });
  expect(retirements).toEqual({ order: "LAST_RETIRED", filter: { path, archivedAfter: "2026-03-02T08:30:00.000Z" } });
  const none = { log: null, reruns: null, registrations: null, retirements: null };
  const starts = { filter: { types: ["playbook_started"] }, reasons: false };
  expect(listsOf({ action: "started" }, NOW)).toEqual({ ...none, log: starts });
  expect(listsOf({ action: "rerun" }, NOW)).toEqual({ ...none, reruns: { filter: { isRerun: true } } });
  const until = "2026-03-02T09:00:00.000Z";
  const registered = { order: "NEWEST", filter: { createdBefore: until } };
  expect(listsOf({ action: "registered-entry", until }, NOW)).toEqual({ ...none, registrations: registered });
  const retired = { order: "LAST_RETIRED", filter: { archivedBefore: until } };
  expect(listsOf({ action: "retired-entry", until }, NOW)).toEqual({ ...none, retirements: retired });
});

/** Returns entries with these minutes as their ids and times, newest first. */
function entries(...minutes: number[]) {
  return minutes.map((minute) =>
    entryOfRerun({ id: String(minute), path: null, startedAt: `2026-03-02T09:${minute}:00Z`, startedBy: "ann", rerunOf: { id: "7" } }),
  );
}

test.each([
  ["both are complete", [entries(40, 20), entries(30, 10)], [false, false], [40, 30, 20, 10], null],
  ["the first has more", [entries(40, 20), entries(30, 10)], [true, false], [40, 30, 20], 0],
  ["the second has more", [entries(40, 20, 15), entries(30)], [false, true], [40, 30], 1],
  ["equal times", [entries(40), entries(40)], [false, false], [40, 40], null],
  ["one is empty", [[], entries(30)], [false, false], [30], null],
  ["one alone has more", [entries(40)], [true], [40], 0],
])("the merged list is newest first and ends where entries may be missing: %s", (_, lists, hasMore, minutes, next) => {
  const merged = newestFirst(lists.map((list, part) => ({ entries: list, hasMore: hasMore[part]! })));
  expect(merged.entries.map(({ objectId }) => Number(objectId))).toEqual(minutes);
  expect(merged.next).toBe(next);
});

test("an action is found by its caller, its reason, its path, its id and the execution that was run again", () => {
  const event = { id: "1", executionId: "2", type: "playbook.cancelled", nodeName: "a/b", createdAt: "2026-03-02T09:00:00Z" };
  const cancelled = entryOf({ ...event, meta: { actor: "ann" }, context: { reason: "Wrong price" } });
  expect(cancelled).toMatchObject({ action: "Cancelled", kind: "execution", actor: "ann", reason: "Wrong price", origin: null });
  const retried = entryOf({ ...event, type: "outbox.retried", meta: { actor: "ann" }, context: { outbox_id: "0-1" } });
  expect(retried).toMatchObject({ action: "Retried delivery", kind: "execution", objectId: "2", actor: "ann", reason: null });
  const [rerun] = entries(30);
  expect(rerun).toMatchObject({ action: "Rerun", actor: "ann", origin: "7" });
  expect(["ANN", "wrong", "a/b", "2", "7", ""].map((text) => contains(cancelled, text))).toEqual([true, true, true, true, false, true]);
  expect(contains(rerun!, "7")).toBe(true);
});

test("a catalog entry has a caller and a time of its registration, and others of its retirement", () => {
  const times = { createdAt: "2026-03-02T08:00:00Z", archivedAt: "2026-03-02T09:00:00Z" };
  const entry = { catalogId: "5", path: "a/b", version: 2, ...times, registeredBy: null, archivedBy: "ann" };
  const object = { kind: "catalogEntry", objectId: "5", path: "a/b", version: 2 };
  const registered = entryOfRegistration(entry);
  expect(registered).toMatchObject({ ...object, action: "Registered entry", at: times.createdAt, actor: null });
  const retired = entryOfRetirement(entry);
  expect(retired).toMatchObject({ ...object, action: "Retired entry", at: times.archivedAt, actor: "ann" });
  expect(retired.id).not.toBe(registered.id);
});

import { expect, test } from "vitest";

import { contains, entryOf, entryOfRerun, listsOf } from "../src/views/audit/entry";
import { newestFirst } from "../src/views/audit/newest_first";

const NOW = Date.parse("2026-03-02T09:30:00Z");

test("without an action, changes and reruns are read with the same conditions; starts have no reason", () => {
  const { log, reruns } = listsOf({ path: "a/b", since: "1h" }, NOW);
  expect(log?.filter).toMatchObject({ nodeNames: ["a/b"], createdAfter: "2026-03-02T08:30:00.000Z" });
  expect(log?.filter.types).toContain("playbook.cancelled");
  expect(log?.filter.types).not.toContain("playbook_started");
  expect(reruns?.filter).toEqual({ isRerun: true, path: "a/b", startedAfter: "2026-03-02T08:30:00.000Z" });
  expect(listsOf({ action: "started" }, NOW)).toEqual({ log: { filter: { types: ["playbook_started"] }, reasons: false }, reruns: null });
  expect(listsOf({ action: "rerun" }, NOW)).toEqual({ log: null, reruns: { filter: { isRerun: true } } });
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

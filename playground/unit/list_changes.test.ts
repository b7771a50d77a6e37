import { expect, test } from "vitest";

import { addedTo, bounded, changed, gapsAfter, newestFirst } from "../src/views/executions/list_changes";
import type { ExecutionListTailSubscription, ExecutionRowFragment } from "../src/views/executions/operations.generated";

type Update = ExecutionListTailSubscription["executionListUpdates"];

const [EARLY, LATE] = ["2026-03-01T09:30:00.000000Z", "2026-03-01T09:30:00.000001Z"];

function row(id: string, startedAt: string | null = EARLY, status = "RUNNING"): ExecutionRowFragment {
  return { id, startedAt, status } as ExecutionRowFragment;
}

function idsOf(rows: readonly ExecutionRowFragment[]): string[] {
  return rows.map(({ id }) => id);
}

test("executions are ordered by the start, then by the id as a number; those without a start are the last", () => {
  const rows = [row("9"), row("30", null), row("10"), row("8", LATE), row("11")];
  expect(idsOf(rows.toSorted(newestFirst))).toEqual(["8", "11", "10", "9", "30"]);
});

test("an execution is added if no page has it, and the order has it before the last listed one", () => {
  const nodes = [row("20"), row("10")];
  const changes = new Map([row("20"), row("15"), row("9"), row("11", LATE)].map((one) => [one.id, one]));
  expect(idsOf(addedTo(nodes, nodes[1], changes))).toEqual(["15", "11"]);
  expect(idsOf(addedTo(nodes, undefined, changes)), "the list has no more pages").toEqual(["15", "9", "11"]);
  expect(addedTo(nodes, nodes[1], new Map([["15", null]])), "it left the filter").toEqual([]);
});

test("a listed execution has its newest state, and goes when it leaves the filter", () => {
  const changes = new Map([
    ["2", row("2", EARLY, "FAILED")],
    ["1", null],
  ]);
  expect(changed([row("3"), row("2"), row("1")], changes)).toEqual([row("3"), row("2", EARLY, "FAILED")]);
});

test("of more changes than are kept, those of the newest executions stay", () => {
  const changes = new Map(Array.from({ length: 1_200 }, (_, index) => [String(index), null]));
  const kept = [...bounded(changes).keys()];
  expect(kept).toHaveLength(1_000);
  expect(Math.min(...kept.map(Number))).toBe(200);
});

test("a gap of a shard ends with the next state that comes from the shard", () => {
  const gap = { kind: "GAP", shard: 1, execution: null } as Update;
  const update = (shard: number) => ({ kind: "CHANGED", shard: null, execution: { shard } }) as Update;
  expect(gapsAfter([2], gap)).toEqual([2, 1]);
  expect(gapsAfter([2, 1], gap)).toEqual([2, 1]);
  expect(gapsAfter([2, 1], update(3))).toEqual([2, 1]);
  expect(gapsAfter([2, 1], update(2))).toEqual([1]);
});

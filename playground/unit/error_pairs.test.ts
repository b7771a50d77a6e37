import { expect, test } from "vitest";

import { errorPairs, type Run } from "../src/views/execution/error_pairs";

type Step = NonNullable<Run["steps"]>["nodes"][number];

function step(name: string, error: string | null, more: Partial<Step> = {}): Step {
  return { name, status: error === null ? "COMPLETED" : "FAILED", error, iterations: null, ...more };
}

function run(error: string | null, ...nodes: Step[]): Run {
  return { status: error === null ? "COMPLETED" : "FAILED", error, steps: { nodes } };
}

function loop(failed: number): Partial<Step> {
  return { iterations: { completed: 3, dispatched: 3, expected: 3, failed } };
}

test("two runs without errors have nothing to compare", () => {
  expect(errorPairs(run(null, step("a", null)), { ...run(null), steps: null })).toEqual([]);
});

test.each([
  ["equal errors", step("a", "no answer"), step("a", "no answer"), "Equal", "no answer", "no answer"],
  ["different errors", step("a", "no answer"), step("a", "no stock"), "Different", "no answer", "no stock"],
  ["a failure here", step("a", "no answer"), step("a", null), "Only this run", "no answer", "No error"],
  ["a failure there", step("a", null), step("a", "no stock"), "Only the other run", "No error", "no stock"],
  ["a step that was not reached", step("a", "no answer"), step("b", null), "Only this run", "no answer", "Not reached"],
  [
    "a failure without a text",
    step("a", null, { status: "FAILED" }),
    step("a", "no stock"),
    "Different",
    "Failed without an error text",
    "no stock",
  ],
  ["failed iterations", step("a", null, loop(1)), step("a", null, loop(2)), "Different", "1 of 3 failed", "2 of 3 failed"],
] as const)("%s of a step", (_, here, there, comparison, left, right) => {
  const pairs = errorPairs(run(null, here), run(null, there));
  const shown = pairs.map((pair) => [pair.name, pair.comparison, pair.left.error ?? pair.left.words, pair.right.error ?? pair.right.words]);
  expect(shown).toEqual([["a", comparison, left, right]]);
});

test("the error of the whole run is first", () => {
  const failed = run("no answer", step("a", null), step("b", "no answer"));
  const pairs = errorPairs(failed, failed);
  expect(pairs.map(({ name, comparison }) => [name, comparison])).toEqual([["Whole run", "Equal"], ["b", "Equal"]]);
});

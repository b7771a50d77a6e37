import { expect, test } from "vitest";

import { absenceInWords, errorPairs, type Run } from "../src/views/execution/error_pairs";

type Step = NonNullable<Run["steps"]>["nodes"][number];

function step(name: string, error: string | null, more: Partial<Step> = {}): Step {
  return { name, status: error === null ? "COMPLETED" : "FAILED", error, iterations: null, ...more };
}

function run(error: string | null, ...nodes: Step[]): Run {
  return { status: error === null ? "COMPLETED" : "FAILED", error, steps: { nodes, pageInfo: { hasNextPage: false } } };
}

/** Makes a run have steps that were not read. */
function partly(whole: Run): Run {
  return { ...whole, steps: { nodes: whole.steps?.nodes ?? [], pageInfo: { hasNextPage: true } } };
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
  ["failed iterations without a text", step("a", null, loop(1)), step("a", null, loop(1)), "Not known", "1 of 3 failed", "1 of 3 failed"],
  ["an equal last error", step("a", "no stock", loop(1)), step("a", "no stock", loop(2)), "Different", "no stock", "no stock"],
  ["equal loops", step("a", "no stock", loop(2)), step("a", "no stock", loop(2)), "Equal", "no stock", "no stock"],
  [
    "two failures without a text",
    step("a", null, { status: "FAILED" }),
    step("a", null, { status: "FAILED" }),
    "Not known",
    "Failed without an error text",
    "Failed without an error text",
  ],
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

test.each([
  ["more steps", partly(run(null, step("b", null)))],
  ["unread steps", { ...run(null), steps: null }],
])("a run with %s may have reached each step", (_, other) => {
  const here = run(null, step("a", "no answer"));
  expect([absenceInWords(other), absenceInWords(here)]).toEqual(["Not known", "Not reached"]);
  for (const [pair] of [errorPairs(here, other), errorPairs(other, here)]) {
    expect([pair?.comparison, [pair?.left.words, pair?.right.words].includes("Not known")]).toEqual(["Not known", true]);
  }
});

test("a step that is read is compared although others are missing", () => {
  const failed = partly(run(null, step("a", "no answer")));
  expect(errorPairs(failed, partly(run(null, step("a", null)))).map(({ comparison }) => comparison)).toEqual(["Only this run"]);
});

test("a step with the name of the whole run has a key of its own", () => {
  const failed = run("no answer", step("Whole run", "no answer"));
  const pairs = errorPairs(failed, failed);
  expect(pairs.map(({ name }) => name)).toEqual(["Whole run", "Whole run"]);
  expect(new Set(pairs.map(({ key }) => key)).size).toBe(2);
});

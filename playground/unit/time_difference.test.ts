import { expect, test } from "vitest";

import { differenceInWords, type Lasted } from "../src/views/execution/time_difference";

function lasted(status: string | null, seconds: number | null): Lasted {
  return { status, seconds };
}

test.each([
  ["both completed", lasted("COMPLETED", 5), lasted("COMPLETED", 2), "This run took 3 s longer"],
  ["both completed, this one faster", lasted("COMPLETED", 2), lasted("COMPLETED", 5), "This run took 3 s less"],
  ["both completed in the same time", lasted("COMPLETED", 2), lasted("COMPLETED", 2.0004), "Same"],
  ["both completed, one time is not known", lasted("COMPLETED", 2), lasted("COMPLETED", null), null],
  ["this one failed", lasted("FAILED", 2), lasted("COMPLETED", 5), "Failed in this run"],
  ["the other one failed", lasted("COMPLETED", 5), lasted("FAILED", 2), "Failed in the other run"],
  ["both failed", lasted("FAILED", 5), lasted("FAILED", 2), "Failed in both runs"],
  ["this one failed, the other run does not name the step", lasted("FAILED", 2), lasted(null, null), "Failed in this run"],
  ["one was cancelled", lasted("COMPLETED", 5), lasted("CANCELLED", 2), null],
  ["one was skipped", lasted("SKIPPED", 0), lasted("COMPLETED", 2), null],
  ["one is running", lasted("COMPLETED", 5), lasted("COMMAND_STARTED", null), null],
])("a difference of time needs two completed sides: %s", (_, left, right, words) => {
  expect(differenceInWords(left, right)).toBe(words);
});

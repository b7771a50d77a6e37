import { expect, test } from "vitest";

import { differenceInWords, type Outcome } from "../src/views/execution/time_difference";

function outcome(status: string | null, seconds: number | null): Outcome {
  return { status, seconds };
}

test.each([
  ["both completed", outcome("COMPLETED", 5), outcome("COMPLETED", 2), "This run took 3 s longer"],
  ["both completed, this one faster", outcome("COMPLETED", 2), outcome("COMPLETED", 5), "This run took 3 s less"],
  ["both completed in the same time", outcome("COMPLETED", 2), outcome("COMPLETED", 2.0004), "Same"],
  ["both completed, one time is not known", outcome("COMPLETED", 2), outcome("COMPLETED", null), null],
  ["this one failed", outcome("FAILED", 2), outcome("COMPLETED", 5), "Failed in this run"],
  ["the other one failed", outcome("COMPLETED", 5), outcome("FAILED", 2), "Failed in the other run"],
  ["both failed", outcome("FAILED", 5), outcome("FAILED", 2), "Failed in both runs"],
  ["this one failed, the other run does not name the step", outcome("FAILED", 2), outcome(null, null), "Failed in this run"],
  ["one was cancelled", outcome("COMPLETED", 5), outcome("CANCELLED", 2), null],
  ["one was skipped", outcome("SKIPPED", 0), outcome("COMPLETED", 2), null],
  ["one is running", outcome("COMPLETED", 5), outcome("COMMAND_STARTED", null), null],
])("a difference of time needs two completed sides: %s", (_, left, right, words) => {
  expect(differenceInWords(left, right)).toBe(words);
});

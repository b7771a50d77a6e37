import { expect, test } from "vitest";

import { toneOf } from "../src/ui/tone";
import { STATUSES } from "../src/views/executions/filter";

test("of the statuses of executions, only a failure is red", () => {
  expect(STATUSES).toContain("CANCELLED");
  expect(STATUSES.filter((status) => toneOf(status) === "bad")).toEqual(["FAILED"]);
});

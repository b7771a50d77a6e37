import { expect, test } from "vitest";

import { afterKey, between, rangeText, readRange, timeText } from "../src/views/execution/timeline_range";

const START = Date.parse("2026-03-01T09:30:00Z");
const WHOLE = { from: START, to: START + 8_000 };

test.each([
  ["1500-3200", [1_500, 3_200]],
  ["7999-8000", [7_996, 8_000]],
  ["9000-10000", [7_000, 8_000]],
  ["0-9000", [0, 8_000]],
  ["3200-1500", [0, 8_000]],
  ["all", [0, 8_000]],
  [undefined, [0, 8_000]],
])("the address %s shows a part within the whole time", (text, expected) => {
  const { from, to } = readRange(text, WHOLE);
  expect([from - START, to - START]).toEqual(expected);
});

test("a part stays while the execution runs on, and the whole time grows", () => {
  const later = { from: START, to: START + 60_000 };
  const text = rangeText({ from: START + 1_000, to: WHOLE.to }, WHOLE);
  expect(readRange(text, later)).toEqual({ from: START + 1_000, to: WHOLE.to });
  expect(rangeText(WHOLE, WHOLE)).toBeUndefined();
});

test.each([
  [["+"], [2_000, 6_000]],
  [["=", "+"], [3_000, 5_000]],
  [["+", "-"], [0, 8_000]],
  [["+", "ArrowLeft"], [1_000, 5_000]],
  [["+", "ArrowRight", "ArrowRight", "ArrowRight"], [4_000, 8_000]],
  [["+", "+", "0"], [0, 8_000]],
  [["-", "ArrowLeft", "a"], [0, 8_000]],
  [Array.from({ length: 20 }, () => "+"), [3_998, 4_002]],
])("the keys %s show a part", (keys, expected) => {
  const { from, to } = keys.reduce((shown, key) => afterKey(key, shown, WHOLE) ?? shown, WHOLE);
  expect([from - START, to - START]).toEqual(expected);
});

test("a drag in either direction chooses a part of what is shown", () => {
  const shown = { from: START + 2_000, to: START + 6_000 };
  const expected = { from: START + 3_000, to: START + 5_000 };
  expect([between(0.25, 0.75, shown, WHOLE), between(0.75, 0.25, shown, WHOLE)]).toEqual([expected, expected]);
});

test("a time has its date if the whole time is longer than a day", () => {
  const day = { from: START, to: START + 86_400_000 };
  expect(timeText(START + 125, day, "local")).toBe("15:00:00.125");
  const longer = { ...day, to: day.to + 1 };
  expect(timeText(longer.to, longer, "local")).toBe("2026-03-02 15:00:00.001");
  expect(timeText(longer.to, longer, "utc")).toBe("2026-03-02 09:30:00.001 UTC");
});

import { expect, test } from "vitest";

import * as format from "../src/ui/format";

const AT = "2026-03-01T22:30:05.125Z";

test.each([
  [0.25, "250 ms"],
  [1, "1 s"],
  [9.96, "10 s"],
  [59.9, "59 s"],
  [60, "1 min"],
  [125, "2 min 5 s"],
  [3_600, "1 h"],
  [7_265, "2 h 1 min"],
  [90_000, "1 d 1 h"],
])("the duration of %d seconds", (seconds, text) => {
  expect(format.formatDuration(seconds)).toBe(text);
});

test.each([
  [0.9, "now"],
  [-0.9, "now"],
  [5, "5 s ago"],
  [-125, "in 2 min 5 s"],
  [725, "12 min ago"],
  [-100_000, "in 1 d 3 h"],
])("a time %d seconds ago", (seconds, text) => {
  expect(format.formatRelative(0, seconds * 1_000)).toBe(text);
});

test("times are those of the chosen zone, and a field gives the time that it shows", () => {
  expect(format.formatTime(AT, "utc")).toBe("2026-03-01 22:30:05.125 UTC");
  expect(format.formatTime(AT, "local")).toBe("2026-03-02 04:00:05.125");
  expect(format.formatClock(AT, "utc")).toBe("22:30:05.125");
  expect(format.formatClock(AT, "local")).toBe("04:00:05.125");
  for (const [zone, shown] of [["utc", "2026-03-01T22:30:05"], ["local", "2026-03-02T04:00:05"]] as const) {
    expect(format.formatLocalInput(AT, zone)).toBe(shown);
    expect(format.parseLocalInput(shown, zone)).toBe("2026-03-01T22:30:05.000Z");
  }
  expect(format.formatLocalInput("no time", "utc")).toBe("");
  expect(format.parseLocalInput("", "local")).toBeNull();
});

test("numbers, rates, latencies and bytes", () => {
  expect(format.formatNumber("1234567")).toBe("1,234,567");
  expect(format.formatCount({ value: 10_000, capped: true })).toBe("≥ 10,000");
  expect(format.formatShortNumber(12_345)).toBe("12.3K");
  expect([99.94, 100.4].map(format.formatRate)).toEqual(["99.9", "100"]);
  expect([0.05, 1.46].map(format.formatLatency)).toEqual(["< 0.1 ms", "1.5 ms"]);
  expect([0, 1_023, 4 * 1024 ** 2, "1536"].map(format.formatBytes)).toEqual(["0 bytes", "1,023 bytes", "4 MiB", "1.5 KiB"]);
});

import { expect, test, vi } from "vitest";

import { afterChanges } from "../src/api/after_changes";

test("a slow read ends although changes go on, and one read follows for all of them; after the end there is none", async () => {
  vi.useFakeTimers();
  const ends: (() => void)[] = [];
  const { change, stop } = afterChanges(() => new Promise((resolve) => ends.push(resolve)), 250);
  change();
  change();
  await vi.advanceTimersByTimeAsync(250);
  expect(ends).toHaveLength(1);
  for (let second = 0; second < 5; second += 1) {
    change();
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(ends).toHaveLength(1);
  ends[0]!();
  await vi.advanceTimersByTimeAsync(250);
  expect(ends).toHaveLength(2);
  ends[1]!();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ends).toHaveLength(2);
  change();
  stop();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ends).toHaveLength(2);
  vi.useRealTimers();
});

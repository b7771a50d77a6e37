import { expect, test } from "vitest";

import { ExactNumber } from "../src/api/exact_json";
import type { StepState } from "../src/views/execution/live_execution";
import type { LogEventFragment } from "../src/views/execution/operations.generated";
import { barsOf, share, wholeTime } from "../src/views/execution/timeline";

const START = Date.parse("2026-03-01T09:30:00Z");

function at(second: number): string {
  return new Date(START + second * 1_000).toISOString();
}

function step(name: string, entered: number | null, completed: number | null): StepState {
  const [enteredAt, completedAt] = [entered, completed].map((second) => (second === null ? null : at(second)));
  return { name, enteredAt, completedAt } as StepState;
}

function event(nodeName: string | null, type: string, second: number, id: string | number | ExactNumber | null, attempt?: number): LogEventFragment {
  const meta = id === null ? null : { command_id: id, ...(attempt !== undefined && { attempt }) };
  return { nodeName, type, createdAt: at(second), meta } as LogEventFragment;
}

/** Returns the lanes of the only step, with the times in seconds. */
function lanesOf(events: readonly LogEventFragment[]) {
  const second = (time: number | null) => time && (time - START) / 1_000;
  return barsOf([step("charge", 1, null)], events)[0]?.lanes.map((lane) =>
    lane.map(({ issued, started, ended, failed, attempt }) => [second(issued), second(started), second(ended), failed, attempt]),
  );
}

test("attempts follow each other in one lane, and commands at the same time have a lane each", () => {
  const attempts = [
    event("charge", "command.issued", 2, "a", 1),
    event("charge", "command.started", 3, "a", 1),
    event("charge", "command.failed", 4, "a", 1),
    event("charge", "command.issued", 4, "b", 2),
    event("charge", "command.started", 6, "b", 2),
  ];
  expect(lanesOf(attempts)).toEqual([[[2, 3, 4, true, 1], [4, 6, null, false, 2]]]);
  const loop = [
    event("charge", "command.issued", 2, 1),
    event("charge", "command.issued", 3, new ExactNumber("9007199254740993")),
    event("charge", "call.done", 4, 1),
    event("charge", "command.issued", 5, 3),
  ];
  expect(lanesOf(loop)).toEqual([[[2, null, 4, false, null], [5, null, null, false, null]], [[3, null, null, false, null]]]);
});

test("events of other steps, and events without a step or a command, are no bars", () => {
  expect(lanesOf([event("other", "command.issued", 2, "a"), event(null, "command.issued", 2, "a"), event("charge", "step.enter", 2, null)])).toEqual([]);
});

test("steps that were entered have bars in their order, from the first command of a repeated step to its end", () => {
  const steps = [step("first", 5, 7), step("never", null, null), step("second", 7, null)];
  const bars = barsOf(steps, [event("first", "command.issued", 2, "a")]);
  expect(bars.map(({ step: { name }, entered, ended }) => [name, entered, ended])).toEqual([
    ["first", START + 2_000, START + 7_000],
    ["second", START + 7_000, null],
  ]);
});

test("the whole time has the bars of workers whose clocks differ, and grows while the execution runs", () => {
  const bars = barsOf([step("early", 0, 2), step("late", 5, null)], [event("early", "command.issued", -1, "a")]);
  const whole = (endedAt: string | null, now: number) => wholeTime(bars, at(0), endedAt, START + now * 1_000);
  expect(whole(null, 9)).toEqual({ from: START - 1_000, to: START + 9_000 });
  expect(whole(at(4), 9)).toEqual({ from: START - 1_000, to: START + 5_000 });
});

test("a place in the timeline is between 0 and 100 percent", () => {
  const places = [50, 100, 125, 200, 250].map((time) => share(time, { from: 100, to: 200 }));
  expect(places).toEqual([0, 0, 25, 100, 100]);
});

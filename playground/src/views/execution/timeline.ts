/**
 * Bars of a timeline, from the log. A step has the time between its entry and its end. Inside it, each command first waits
 * for a worker and then runs. Commands at the same time, such as the iterations of a loop, have a lane each; the attempts
 * of a step follow each other in one lane.
 */

import { ExactNumber } from "../../api/exact_json";
import { CALLED, COMPLETED, FAILED, STARTED } from "./command_events";
import type { StepState } from "./live_execution";
import type { LogEventFragment } from "./operations.generated";

const ENDED = [...COMPLETED, ...CALLED, ...FAILED];

/** A command of a step. Times are in milliseconds since 1970; null: not yet. */
export interface Command {
  issued: number;
  started: number | null;
  ended: number | null;
  failed: boolean;
  attempt: number | null;
}

export interface StepBars {
  step: StepState;
  entered: number;
  ended: number | null;
  lanes: Command[][];
}

/** A time from its beginning to its end, in milliseconds since 1970. */
export interface Span {
  from: number;
  to: number;
}

/** Returns the place of a time in percent of the span. */
export function share(time: number, { from, to }: Span): number {
  return Math.min(100, Math.max(0, ((time - from) / (to - from)) * 100));
}

/** Returns whether a part of the time from `from` to `to` is in the span. */
export function isWithin(from: number, to: number, span: Span): boolean {
  return to >= span.from && from <= span.to;
}

/** Returns the time from the start to the end of an execution, to `now` if it runs, with all bars: clocks can differ. */
export function wholeTime(bars: readonly StepBars[], startedAt: string, endedAt: string | null, now: number): Span {
  const from = Math.min(Date.parse(startedAt), ...bars.map(({ entered }) => entered));
  const last = endedAt === null ? now : Date.parse(endedAt);
  return { from, to: Math.max(last, from + 1, ...bars.map(({ entered, ended }) => ended ?? entered)) };
}

/** Returns the bars of the steps that were entered, in their order. */
export function barsOf(steps: readonly StepState[], events: readonly LogEventFragment[]): StepBars[] {
  const commands = commandsByStep(events);
  return steps.flatMap((step) => {
    if (step.enteredAt === null) {
      return [];
    }
    const own = commands.get(step.name) ?? [];
    // A step that is entered again has commands before its last entry.
    const entered = own.reduce((first, { issued }) => Math.min(first, issued), Date.parse(step.enteredAt));
    const ended = step.completedAt === null ? null : Date.parse(step.completedAt);
    return { step, entered, ended, lanes: lanesOf(own) };
  });
}

function commandsByStep(events: readonly LogEventFragment[]): Map<string, Command[]> {
  const steps = new Map<string, Map<string, Command>>();
  for (const event of events) {
    const id = commandId(event);
    if (event.nodeName === null || id === null) {
      continue;
    }
    const commands = steps.get(event.nodeName) ?? new Map<string, Command>();
    steps.set(event.nodeName, commands);
    const at = Date.parse(event.createdAt);
    const command = commands.get(id) ?? { issued: at, started: null, ended: null, failed: false, attempt: attemptOf(event) };
    commands.set(id, advanced(command, event.type, at));
  }
  return new Map([...steps].map(([name, commands]) => [name, [...commands.values()]]));
}

function advanced(command: Command, type: string, at: number): Command {
  return {
    ...command,
    issued: Math.min(command.issued, at),
    started: STARTED.includes(type) ? at : command.started,
    ended: ENDED.includes(type) ? at : command.ended,
    failed: command.failed || FAILED.includes(type),
  };
}

function commandId({ meta }: LogEventFragment): string | null {
  const id = (meta as { command_id?: unknown } | null)?.command_id;
  return typeof id === "string" || typeof id === "number" || id instanceof ExactNumber ? String(id) : null;
}

function attemptOf({ meta }: LogEventFragment): number | null {
  const attempt = (meta as { attempt?: unknown } | null)?.attempt;
  return typeof attempt === "number" ? attempt : null;
}

function lanesOf(commands: readonly Command[]): Command[][] {
  const lanes: Command[][] = [];
  for (const command of commands.toSorted((a, b) => a.issued - b.issued)) {
    const free = lanes.find((lane) => (lane.at(-1)?.ended ?? Infinity) <= command.issued);
    if (free) {
      free.push(command);
    } else {
      lanes.push([command]);
    }
  }
  return lanes;
}

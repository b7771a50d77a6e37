/** The errors of two runs, step by step: which steps failed, and whether with the same error. */

import type { Execution, StepState } from "./live_execution";
import { failuresInWords } from "./step_words";

export type Run = Pick<Execution, "status" | "error"> & {
  steps: { nodes: readonly Pick<StepState, "name" | "status" | "error" | "iterations">[] } | null;
};

/** What a run says about a step, or about the whole run. */
export interface Outcome {
  failed: boolean;
  /** Text of the error; null if none was reported. */
  error: string | null;
  /** The outcome in words, shown if there is no error text. */
  words: string;
}

export type Comparison = "Equal" | "Different" | "Only this run" | "Only the other run";

export interface ErrorPair {
  name: string;
  left: Outcome;
  right: Outcome;
  comparison: Comparison;
}

const NOT_REACHED: Outcome = { failed: false, error: null, words: "Not reached" };

/** Returns a pair for the whole run, and one for each step, if at least one of the runs failed there. */
export function errorPairs(left: Run, right: Run): ErrorPair[] {
  const [ours, theirs] = [outcomesOf(left), outcomesOf(right)];
  const names = [...new Set([...ours.keys(), ...theirs.keys()])];
  const steps = names.map((name) => pairOf(name, ours.get(name) ?? NOT_REACHED, theirs.get(name) ?? NOT_REACHED));
  const whole = pairOf("Whole run", outcomeOf(left, null), outcomeOf(right, null));
  return [whole, ...steps].filter(({ left: here, right: there }) => here.failed || there.failed);
}

function outcomesOf({ steps }: Run): Map<string, Outcome> {
  return new Map((steps?.nodes ?? []).map((step) => [step.name, outcomeOf(step, failuresInWords(step))]));
}

/** Returns an outcome. A loop can have failed iterations without having failed itself. */
function outcomeOf({ status, error }: { status: string; error: string | null }, iterations: string | null): Outcome {
  const failed = status === "FAILED" || error !== null || iterations !== null;
  return { failed, error, words: failed ? (iterations ?? "Failed without an error text") : "No error" };
}

function pairOf(name: string, left: Outcome, right: Outcome): ErrorPair {
  return { name, left, right, comparison: compared(left, right) };
}

function compared(left: Outcome, right: Outcome): Comparison {
  if (left.failed !== right.failed) {
    return left.failed ? "Only this run" : "Only the other run";
  }
  return textOf(left) === textOf(right) ? "Equal" : "Different";
}

function textOf({ error, words }: Outcome): string {
  return error ?? words;
}

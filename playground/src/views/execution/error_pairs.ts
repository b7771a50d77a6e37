/** The errors of two runs, step by step: which steps failed, and whether with the same error. */

import type { Execution, StepState } from "./live_execution";
import { failuresInWords } from "./step_words";

export type Run = Pick<Execution, "status" | "error"> & {
  steps: {
    nodes: readonly Pick<StepState, "name" | "status" | "error" | "iterations">[];
    pageInfo: { hasNextPage: boolean };
  } | null;
};

/** What a run says about a step, or about the whole run. */
export interface Outcome {
  /** Null if the step is not known. */
  failed: boolean | null;
  /** Text of the error; null if none was reported. */
  error: string | null;
  /** Number of failed iterations in words; null if none has failed. */
  iterations: string | null;
  /** The outcome in words, shown if there is no error text. */
  words: string;
}

export type Comparison = "Equal" | "Different" | "Only this run" | "Only the other run" | "Not known";

export interface ErrorPair {
  /** Unique among the pairs, also if a step has the name of the whole run. */
  key: string;
  name: string;
  left: Outcome;
  right: Outcome;
  comparison: Comparison;
}

/** Returns whether the run has steps that were not read, or may have them. */
export function lacksSteps({ steps }: Pick<Run, "steps">): boolean {
  return steps === null || steps.pageInfo.hasNextPage;
}

/** Returns what a run says about a step that it does not name. */
export function absenceInWords(run: Pick<Run, "steps">): "Not known" | "Not reached" {
  return lacksSteps(run) ? "Not known" : "Not reached";
}

/** Returns a pair for the whole run, and one for each step, if at least one of the runs failed there. */
export function errorPairs(left: Run, right: Run): ErrorPair[] {
  const [ours, theirs] = [outcomesOf(left), outcomesOf(right)];
  const names = [...new Set([...ours.keys(), ...theirs.keys()])];
  const steps = names.map((name) =>
    pairOf(`step ${name}`, name, ours.get(name) ?? absent(left), theirs.get(name) ?? absent(right)),
  );
  const whole = pairOf("run", "Whole run", outcomeOf(left, null), outcomeOf(right, null));
  return [whole, ...steps].filter(({ left: here, right: there }) => here.failed || there.failed);
}

function outcomesOf({ steps }: Run): Map<string, Outcome> {
  return new Map((steps?.nodes ?? []).map((step) => [step.name, outcomeOf(step, failuresInWords(step))]));
}

function absent(run: Run): Outcome {
  return { failed: lacksSteps(run) ? null : false, error: null, iterations: null, words: absenceInWords(run) };
}

/** Returns an outcome. A loop can have failed iterations without having failed itself. */
function outcomeOf({ status, error }: { status: string; error: string | null }, iterations: string | null): Outcome {
  const failed = status === "FAILED" || error !== null || iterations !== null;
  return { failed, error, iterations, words: failed ? (iterations ?? "Failed without an error text") : "No error" };
}

function pairOf(key: string, name: string, left: Outcome, right: Outcome): ErrorPair {
  return { key, name, left, right, comparison: compared(left, right) };
}

/** Compares two outcomes. Whether failures without a text are equal is not known. */
function compared(left: Outcome, right: Outcome): Comparison {
  if (left.failed === null || right.failed === null) {
    return "Not known";
  }
  if (left.failed !== right.failed) {
    return left.failed ? "Only this run" : "Only the other run";
  }
  if (left.error !== right.error || left.iterations !== right.iterations) {
    return "Different";
  }
  return left.error === null ? "Not known" : "Equal";
}

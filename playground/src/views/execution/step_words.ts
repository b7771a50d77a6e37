/** The state of a step in words and as a tone. */

import { toneOf, type Tone } from "../../ui/tone";
import type { StepState } from "./live_execution";

const WORDS: Record<StepState["status"], string> = {
  PENDING: "Waiting",
  ENTERED: "Entered",
  COMMAND_ISSUED: "Waiting for a worker",
  COMMAND_CLAIMED: "Claimed by a worker",
  COMMAND_STARTED: "Running",
  COMPLETED: "Completed",
  FAILED: "Failed",
  SKIPPED: "Skipped",
};

/** Returns the number of failed iterations in words, such as `3 of 40 failed`; null if none has failed. */
export function failuresInWords({ iterations }: Pick<StepState, "iterations">): string | null {
  return iterations && iterations.failed > 0 ? `${iterations.failed} of ${iterations.expected} failed` : null;
}

/** Returns the tone of a step: mixed for a loop of which some iterations have failed, else that of its status. */
export function toneOfStep({ status, iterations }: Pick<StepState, "status" | "iterations">): Tone {
  if (!iterations || iterations.failed === 0) {
    return toneOf(status);
  }
  return iterations.failed < iterations.expected ? "mixed" : "bad";
}

/** Returns the status in words, with the attempt and the iterations if the step has several. */
export function stepInWords(step: StepState): string {
  const failures = failuresInWords(step);
  const parts = [WORDS[step.status]];
  if (step.iterations && (failures === null || step.completedAt === null)) {
    parts.push(`${step.iterations.completed} of ${step.iterations.expected}`);
  }
  if (failures !== null) {
    parts.push(failures);
  }
  if (step.attempt > 1) {
    parts.push(`attempt ${step.attempt}`);
  }
  return parts.join(", ");
}

export function statusInWords(status: StepState["status"]): string {
  return WORDS[status];
}

/** The state of a step in words. */

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

/** Returns the status in words, with the attempt and the iterations if the step has several. */
export function stepInWords(step: StepState): string {
  const parts = [WORDS[step.status]];
  if (step.iterations) {
    parts.push(`${step.iterations.completed} of ${step.iterations.expected}`);
  }
  if (step.attempt > 1) {
    parts.push(`attempt ${step.attempt}`);
  }
  return parts.join(", ");
}

export function statusInWords(status: StepState["status"]): string {
  return WORDS[status];
}

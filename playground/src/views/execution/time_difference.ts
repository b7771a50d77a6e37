/** The difference between the durations of two runs, or of a step in both, in words. */

import { formatDuration } from "../../ui/format";

/** End of a run, or of a step. */
export interface Outcome {
  /** Status of the run or of the step; null if the run does not name the step. */
  status: string | null;
  /** Duration in seconds; null if it is not known, or if the end has not come. */
  seconds: number | null;
}

/** Returns the failure if a side failed, else the difference if both sides completed; null if there is neither. */
export function differenceInWords(left: Outcome, right: Outcome): string | null {
  const [here, there] = [left.status === "FAILED", right.status === "FAILED"];
  if (here || there) {
    return `Failed in ${here && there ? "both runs" : here ? "this run" : "the other run"}`;
  }
  const completed = left.status === "COMPLETED" && right.status === "COMPLETED";
  if (!completed || left.seconds === null || right.seconds === null) {
    return null;
  }
  const seconds = left.seconds - right.seconds;
  if (Math.abs(seconds) < 0.001) {
    return "Same";
  }
  return `This run took ${formatDuration(Math.abs(seconds))} ${seconds > 0 ? "longer" : "less"}`;
}

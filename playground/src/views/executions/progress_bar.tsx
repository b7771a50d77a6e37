/** Completed steps of those that the execution has reached, as a bar and a number. */

import { toneOf } from "../../ui/tone";
import classes from "./progress_bar.module.css";

interface Props {
  stepsCompleted: number;
  stepsKnown: number;
  status: string;
}

export function ProgressBar({ stepsCompleted, stepsKnown, status }: Props) {
  const share = stepsKnown === 0 ? 0 : stepsCompleted / stepsKnown;
  return (
    <span className={classes.progress} data-tone={toneOf(status)}>
      <span className={classes.track} aria-hidden="true">
        <span className={classes.bar} style={{ width: `${share * 100}%` }} />
      </span>
      {stepsCompleted} of {stepsKnown}
    </span>
  );
}

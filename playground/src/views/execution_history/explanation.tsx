/** The numbers of a bar, or of all bars. They explain the colours too. */

import { formatDuration, formatNumber } from "../../ui/format";
import { PARTS, type Bucket, type Numbers } from "./bars";
import classes from "./chart.module.css";

interface Props {
  name: string;
  numbers: Numbers;
  /** Bar whose percentiles are shown; undefined: none are. */
  bucket?: Bucket;
}

export function Explanation({ name, numbers, bucket }: Props) {
  return (
    <p className={classes.explanation}>
      <strong>{name}</strong>
      {PARTS.map((part) => (
        <span key={part} className={classes.number} data-part={part}>
          {formatNumber(numbers[part])} {part}
        </span>
      ))}
      <Percentiles name="Duration" seconds={bucket?.durationSeconds} />
      <Percentiles name="Wait" seconds={bucket?.waitSeconds} />
    </p>
  );
}

interface PercentilesProps {
  name: string;
  seconds: Bucket["durationSeconds"] | undefined;
}

function Percentiles({ name, seconds }: PercentilesProps) {
  return (
    seconds && (
      <span>
        {name}: p50 {formatDuration(seconds.p50)}, p95 {formatDuration(seconds.p95)}, p99{" "}
        {formatDuration(seconds.p99)}
      </span>
    )
  );
}

/** A status in words with a coloured mark. */

import { toneOf, type Tone } from "./tone";
import classes from "./status_badge.module.css";

interface Props {
  status: string;
  /** Text, if it is not the status itself. */
  label?: string;
  tone?: Tone;
}

export function StatusBadge({ status, label, tone }: Props) {
  return (
    <span className={classes.badge} data-tone={tone ?? toneOf(status)}>
      {label ?? inWords(status)}
    </span>
  );
}

/** Returns a status in words, such as `In flight`. */
export function inWords(status: string): string {
  const words = status.toLowerCase().replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

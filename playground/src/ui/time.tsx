/** A time, relative to now; its absolute time in the chosen zone is beside it or in its tooltip. */

import { Tooltip } from "@mantine/core";

import { useNow, useZone } from "./clock";
import { formatDuration, formatRelative, formatTime } from "./format";
import { useKnownUntil } from "./known_until";
import classes from "./time.module.css";

interface Props {
  value: string | null;
  /** Whether the absolute time is written beside the relative time (default false). */
  absolute?: boolean;
  /** Whether it is the start of a run that has not ended. While the connection is lost, its age stands still, like its duration. */
  running?: boolean;
}

export function Time({ value, absolute = false, running = false }: Props) {
  const now = useNow();
  const knownUntil = useKnownUntil();
  const zone = useZone();
  if (value === null) {
    return <span className={classes.none}>–</span>;
  }
  const at = Date.parse(value);
  const relative = formatRelative(at, running ? Math.max(at, knownUntil) : now);
  const exact = formatTime(value, zone);
  if (absolute) {
    return (
      <time dateTime={value} className={classes.time}>
        {exact} <span className={classes.relative}>({relative})</span>
      </time>
    );
  }
  return (
    <Tooltip label={exact} events={{ hover: true, focus: true, touch: true }}>
      <time dateTime={value} className={classes.time} tabIndex={0}>
        {relative}
      </time>
    </Tooltip>
  );
}

/** A duration in seconds; a dash if it is null. */
export function Duration({ seconds }: { seconds: number | null }) {
  return seconds === null ? <span className={classes.none}>–</span> : <>{formatDuration(seconds)}</>;
}

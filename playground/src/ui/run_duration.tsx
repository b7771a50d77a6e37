/**
 * Time between a start and an end. Without an end, it grows until now, or until a moment of the past. It does not grow while
 * the connection is lost.
 */

import { formatDuration } from "./format";
import { useKnownUntil } from "./known_until";
import { Duration } from "./time";

interface Props {
  from: string | null;
  to: string | null;
  /** Moment of the past whose state is shown. */
  moment?: string | undefined;
}

export function RunDuration({ from, to, moment }: Props) {
  if (from === null) {
    return <Duration seconds={null} />;
  }
  const end = to ?? moment;
  return end === undefined ? (
    <Growing from={Date.parse(from)} />
  ) : (
    <>{formatDuration(secondsBetween(Date.parse(from), Date.parse(end)))}</>
  );
}

function Growing({ from }: { from: number }) {
  const now = useKnownUntil();
  return <>{formatDuration(Math.floor(secondsBetween(from, now)))}</>;
}

function secondsBetween(from: number, to: number): number {
  return Math.max(0, to - from) / 1_000;
}

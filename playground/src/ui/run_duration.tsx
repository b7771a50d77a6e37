/** Time between a start and an end; until now if there is no end. */

import { useNow } from "./clock";
import { formatDuration } from "./format";
import { Duration } from "./time";

interface Props {
  from: string | null;
  to: string | null;
}

export function RunDuration({ from, to }: Props) {
  if (from === null) {
    return <Duration seconds={null} />;
  }
  return to === null ? <Growing from={Date.parse(from)} /> : <>{formatDuration(secondsBetween(Date.parse(from), Date.parse(to)))}</>;
}

function Growing({ from }: { from: number }) {
  const now = useNow();
  return <>{formatDuration(Math.floor(secondsBetween(from, now)))}</>;
}

function secondsBetween(from: number, to: number): number {
  return Math.max(0, to - from) / 1_000;
}

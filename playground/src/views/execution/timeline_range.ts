/** The part of a timeline that is shown. In an address, it is in milliseconds since the beginning, such as `1500-3200`. */

import type { Zone } from "../../ui/clock";
import { formatClock, formatTime } from "../../ui/format";
import type { Span } from "./timeline";

/** Length of the shortest part in milliseconds. The times of events are shown in milliseconds. */
const SHORTEST_MS = 4;
const ZOOM = 2;
/** Distance of a move, as a share of the shown part. */
const STEP = 0.25;
const DAY_MS = 86_400_000;

/** Returns the part that an address names; the whole time if it names none. */
export function readRange(text: string | undefined, whole: Span): Span {
  const [, from, to] = /^(\d{1,15})-(\d{1,15})$/.exec(text ?? "")?.map(Number) ?? [];
  return from !== undefined && to !== undefined && from < to ? within(whole.from + from, to - from, whole) : whole;
}

/** Returns the text of a part for an address; undefined for the whole time, which grows while the execution runs. */
export function rangeText({ from, to }: Span, whole: Span): string | undefined {
  return isWhole({ from, to }, whole) ? undefined : `${Math.round(from - whole.from)}-${Math.round(to - whole.from)}`;
}

export function isWhole({ from, to }: Span, whole: Span): boolean {
  return from <= whole.from && to >= whole.to;
}

/** Returns a time of the shown part in a zone: with its date if the whole time is longer than a day, else the time of day. */
export function timeText(time: number, { from, to }: Span, zone: Zone): string {
  return to - from > DAY_MS ? formatTime(time, zone) : formatClock(time, zone);
}

/** Returns the part between two places of the shown part, which are shares of its length in any order. */
export function between(a: number, b: number, { from, to }: Span, whole: Span): Span {
  return within(from + Math.min(a, b) * (to - from), Math.abs(a - b) * (to - from), whole);
}

/** Returns the part after a key; undefined if the key has no effect on it. */
export function afterKey(key: string, shown: Span, whole: Span): Span | undefined {
  switch (key) {
    case "+":
    case "=":
      return zoomed(shown, 1 / ZOOM, whole);
    case "-":
      return zoomed(shown, ZOOM, whole);
    case "0":
      return whole;
    case "ArrowLeft":
      return isWhole(shown, whole) ? undefined : moved(shown, -STEP, whole);
    case "ArrowRight":
      return isWhole(shown, whole) ? undefined : moved(shown, STEP, whole);
    default:
      return undefined;
  }
}

function zoomed({ from, to }: Span, factor: number, whole: Span): Span {
  const length = Math.max(SHORTEST_MS, (to - from) * factor);
  return within((from + to - length) / 2, length, whole);
}

function moved({ from, to }: Span, share: number, whole: Span): Span {
  return within(from + share * (to - from), to - from, whole);
}

/** Returns the part of this length that is the nearest to the place in the whole time. */
function within(from: number, length: number, whole: Span): Span {
  const kept = Math.min(whole.to - whole.from, Math.max(SHORTEST_MS, length));
  const first = Math.min(whole.to - kept, Math.max(whole.from, from));
  return { from: first, to: first + kept };
}

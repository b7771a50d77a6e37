/** Words and addresses of the bars: a bar leads to the executions of its interval. */

import type { Zone } from "../../ui/clock";
import { formatClock, formatNumber } from "../../ui/format";
import type { ExecutionsSearch } from "../executions/search";
import type { ExecutionHistoryQuery } from "./operations.generated";

export type Bucket = NonNullable<ExecutionHistoryQuery["executionHistory"]>["buckets"][number];

/** Numbers of an interval: executions that ended in it, by status, and those that started in it and may end later. */
export const PARTS = ["completed", "failed", "cancelled", "started"] as const;

export type Part = (typeof PARTS)[number];
export type Numbers = Record<Part, number>;

const DAY_MS = 86_400_000;

export function endedOf({ completed, failed, cancelled }: Numbers): number {
  return completed + failed + cancelled;
}

export function isEmpty(numbers: Numbers): boolean {
  return PARTS.every((part) => numbers[part] === 0);
}

export function sumOf(buckets: readonly Bucket[]): Numbers {
  const sum = (part: Part) => buckets.reduce((total, bucket) => total + bucket[part], 0);
  return { completed: sum("completed"), failed: sum("failed"), cancelled: sum("cancelled"), started: sum("started") };
}

/** Returns the time of day at which an interval begins, or the date of a day. Days are those of UTC in each zone. */
export function nameOf({ from, to }: Bucket, zone: Zone): string {
  const isDay = Date.parse(to) - Date.parse(from) === DAY_MS;
  return isDay ? new Date(from).toISOString().slice(0, 10) : formatClock(from, zone).slice(0, 5);
}

/** Returns the name of an interval with the numbers above zero, such as `14:00, 12 completed, 3 failed, 16 started`. */
export function inWords(bucket: Bucket, zone: Zone): string {
  const numbers = PARTS.filter((part) => bucket[part] > 0).map((part) => `${formatNumber(bucket[part])} ${part}`);
  return [nameOf(bucket, zone), ...numbers].join(", ");
}

/** Returns the filter of the executions of a part; without a part, of those that ended in the interval. */
export function executionsOf({ from, to }: Bucket, path: string | undefined, part?: Part): ExecutionsSearch {
  return part === "started"
    ? { path, since: from, until: to }
    : { path, statuses: part?.toUpperCase(), endedSince: from, endedUntil: to };
}

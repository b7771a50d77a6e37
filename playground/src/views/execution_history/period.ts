/** Times that the chart can show. They end with the interval that is in progress. */

import { useEffect, useState } from "react";

import type { HistoryInterval } from "../../api/schema.generated";

/** Time after which the chart is read again, in milliseconds. */
export const EVERY_MS = 60_000;

/** Time after which a chart without an execution is read again, in milliseconds. */
export const EMPTY_EVERY_MS = 5_000;

export interface Period {
  /** Name in the address. */
  value: string;
  label: string;
  title: string;
  interval: HistoryInterval;
  intervalMs: number;
  /** Number of intervals. */
  count: number;
}

const HOUR: Period = { value: "1h", label: "1 h", title: "last hour", interval: "MINUTE", intervalMs: 60_000, count: 60 };
const DAY: Period = { value: "24h", label: "24 h", title: "last 24 hours", interval: "HOUR", intervalMs: 3_600_000, count: 24 };
const MONTH: Period = { value: "30d", label: "30 d", title: "last 30 days", interval: "DAY", intervalMs: 86_400_000, count: 30 };

export const PERIODS: readonly Period[] = [HOUR, DAY, MONTH];

/** Returns the period with a name; the last 24 hours if the name is missing or unknown. */
export function periodOf(value: string | undefined): Period {
  return PERIODS.find((period) => period.value === value) ?? DAY;
}

/** Returns the start and the end of a period. They move on while the page is visible. */
export function useTimes({ intervalMs, count }: Period): { from: string; to: string } {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const step = () => document.visibilityState !== "hidden" && setNow(Date.now());
    const timer = window.setInterval(step, EVERY_MS);
    document.addEventListener("visibilitychange", step);
    return () => {
      window.clearInterval(timer);
      document.removeEventListener("visibilitychange", step);
    };
  }, []);
  const end = (Math.floor(now / intervalMs) + 1) * intervalMs;
  return { from: new Date(end - count * intervalMs).toISOString(), to: new Date(end).toISOString() };
}

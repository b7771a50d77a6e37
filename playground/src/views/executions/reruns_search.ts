/** The list that has the reruns of an action. */

import type { ExecutionsSearch } from "./search";

/** A rerun that an action has started. */
export interface Started {
  /** Execution that was run again. */
  originId: string;
  path: string | null;
  startedAt: string | null;
}

/**
 * Returns the address of a list with all reruns of an action: those of the only execution, else the executions that started
 * in the time of the reruns, on their path if they have one in common. Null if no rerun is known.
 */
export function rerunsSearch(reruns: readonly Started[]): ExecutionsSearch | null {
  const [first, ...others] = reruns;
  const times = reruns.map(({ startedAt }) => Date.parse(startedAt ?? "")).filter((time) => !Number.isNaN(time));
  if (first && others.length === 0) {
    return { rerunOf: first.originId };
  }
  if (!first || times.length === 0) {
    return null;
  }
  const bound = (time: number) => new Date(time).toISOString();
  return {
    ...(first.path !== null && others.every(({ path }) => path === first.path) && { path: first.path }),
    since: bound(times.reduce((a, b) => Math.min(a, b))),
    // Times of the server are finer than milliseconds.
    until: bound(times.reduce((a, b) => Math.max(a, b)) + 1),
  };
}

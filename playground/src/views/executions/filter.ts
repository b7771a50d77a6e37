/** The filter of the server, from the address of the view. */

import type { ExecutionFilter, ExecutionStatus } from "../../api/schema.generated";
import { flagOf, listOf } from "../../ui/filter_bar";
import { labelConditions } from "../../ui/labels";
import type { ExecutionsSearch } from "./search";

export const STATUSES: readonly ExecutionStatus[] = ["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "UNKNOWN"];

/** Statuses of executions that have not ended. */
export const OPEN: readonly ExecutionStatus[] = ["PENDING", "RUNNING", "UNKNOWN"];

/** Explanation of the field for the version. */
export const VERSION_HINT = "A version of the path that the field Path names in full.";

/** Reasons a dedup key is not found. */
export const DEDUP_HINT = "The key of an execution that has a parent is found only with this parent. Keys expire.";

/** Bound of the search for a text in errors. */
export const ERROR_HINT =
  "Of each shard, the newest 5,000 failed executions are searched. Older ones, and failed steps of completed executions, are " +
  "not found.";

const VERSION = /^\d{1,5}$/;
const DURATION = /^(\d+)([mhd])$/;
const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Returns the filter. A duration such as `1h` counts back from `now`. An unknown status, flag or time is left out; malformed
 * labels, ids and versions are refused by the server.
 */
export function filterOf(search: ExecutionsSearch, now: number): ExecutionFilter {
  const statuses = statusesOf(search.statuses);
  const hasFailedSteps = flagOf(search.failedSteps);
  const isRerun = flagOf(search.reruns);
  const since = timeOf(search.since, now);
  const until = timeOf(search.until, now);
  const endedSince = timeOf(search.endedSince, now);
  const endedUntil = timeOf(search.endedUntil, now);
  return {
    ...(statuses.length > 0 && { statuses }),
    ...(hasFailedSteps !== undefined && { hasFailedSteps }),
    ...(search.error !== undefined && { errorContains: search.error }),
    ...pathCondition(search.path),
    ...(search.version !== undefined && { version: versionOf(search.version) }),
    ...(search.pool !== undefined && { executionPools: listOf(search.pool) }),
    ...(search.labels !== undefined && { labels: labelConditions(search.labels) }),
    ...(search.dedup !== undefined && { dedupKey: search.dedup }),
    ...(search.id !== undefined && { idPrefix: search.id }),
    ...(search.parent !== undefined && { parentExecutionId: search.parent }),
    ...(search.rerunOf !== undefined && { rerunOf: search.rerunOf }),
    ...(isRerun !== undefined && { isRerun }),
    ...(since !== undefined && { startedAfter: since }),
    ...(until !== undefined && { startedBefore: until }),
    ...(endedSince !== undefined && { endedAfter: endedSince }),
    ...(endedUntil !== undefined && { endedBefore: endedUntil }),
  };
}

/** Returns the known statuses of a list that is written with commas. */
export function statusesOf(text: string | undefined): ExecutionStatus[] {
  const names = listOf(text?.toUpperCase());
  return STATUSES.filter((status) => names.includes(status));
}

function pathCondition(path: string | undefined): Pick<ExecutionFilter, "path" | "pathPrefix"> {
  if (path === undefined || path === "*") {
    return {};
  }
  return path.endsWith("*") ? { pathPrefix: path.slice(0, -1) } : { path };
}

/** Returns the version of a text; 0, which the server refuses, if it is not one. */
function versionOf(text: string): number {
  return VERSION.test(text) ? Number(text) : 0;
}

/** Returns the time of a text: a time, or a duration that counts back from `now`; undefined if it is neither. */
export function timeOf(text: string | undefined, now: number): string | undefined {
  const [, count, unit] = DURATION.exec(text ?? "") ?? [];
  if (count !== undefined && unit !== undefined) {
    return new Date(now - Number(count) * UNIT_MS[unit]!).toISOString();
  }
  const at = Date.parse(text ?? "");
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

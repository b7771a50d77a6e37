/** The executions that an action changes: those that match the filter of the list, or those whose rows are selected. */

import { send } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { ExecutionFilter } from "../../api/schema.generated";
import type { BulkRequest } from "../../ui/bulk_action_dialog";
import { formatItems, formatNumber } from "../../ui/format";
import { SelectedExecutionsDocument } from "./operations.generated";

/** Maximum number of executions that an action selects, as many as an export has rows. */
const MAX_SELECTED = 10_000;
const NO_FILTER = "Set a filter first. The action changes the executions that match it.";
const NO_ROW = "Select executions in the list first.";

export type Target = { by: "filter"; filter: ExecutionFilter } | { by: "selection"; ids: readonly string[] };

/** Executions that the dry run has listed. */
export interface Listed {
  ids: readonly string[];
  unavailableShards: readonly number[];
}

export const NOTHING: Listed = { ids: [], unavailableShards: [] };

/** Returns the word for the executions in texts of the action. */
export function adjectiveOf({ by }: Target): string {
  return by === "filter" ? "filtered" : "selected";
}

/** Returns the reason the action is not possible; undefined if it is. */
export function refusalOf(target: Target): string | undefined {
  if (target.by === "filter") {
    return Object.keys(target.filter).length === 0 ? NO_FILTER : undefined;
  }
  return target.ids.length === 0 ? NO_ROW : undefined;
}

/** Returns the ids of all executions that match a filter, newest first; none without a filter. */
export async function listAll(filter: ExecutionFilter | null, { report, signal }: BulkRequest): Promise<Listed> {
  if (!filter) {
    return NOTHING;
  }
  const ids: string[] = [];
  const unavailableShards = new Set<number>();
  let after: string | null = null;
  do {
    const { data, errors } = await selectedPage(filter, after, signal);
    if (!data.executions) {
      throw ApiError.of(errors);
    }
    const { nodes, pageInfo } = data.executions;
    ids.push(...nodes.map(({ id }) => id));
    data.executions.unavailableShards.forEach((shard) => unavailableShards.add(shard));
    report(`${formatItems(ids.length, "execution")} found`);
    after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
    if (after !== null && ids.length >= MAX_SELECTED) {
      throw new ApiError("LIMIT_EXCEEDED", `More than ${formatNumber(MAX_SELECTED)} executions match the filter.`);
    }
  } while (after !== null);
  return { ids, unavailableShards: [...unavailableShards] };
}

function selectedPage(filter: ExecutionFilter, after: string | null, signal: AbortSignal) {
  return send(SelectedExecutionsDocument, { filter, after }, signal);
}

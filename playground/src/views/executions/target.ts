/** The executions that an action changes: those that match the filter of the list, or those whose rows are selected. */

import { send } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { ExecutionFilter } from "../../api/schema.generated";
import { listAll, NOTHING, type Listed } from "../../ui/batches";
import type { BulkRequest } from "../../ui/bulk_action_dialog";
import { SelectedExecutionsDocument } from "./operations.generated";

const NO_FILTER = "Set a filter first. The action changes the executions that match it.";
const NO_ROW = "Select executions in the list first.";

export type Target = { by: "filter"; filter: ExecutionFilter } | { by: "selection"; ids: readonly string[] };

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
export async function listExecutions(filter: ExecutionFilter | null, request: BulkRequest): Promise<Listed> {
  return filter ? listAll("execution", (after) => selectedPage(filter, after, request.signal), request) : NOTHING;
}

async function selectedPage(filter: ExecutionFilter, after: string | null, signal: AbortSignal) {
  const { data, errors } = await send(SelectedExecutionsDocument, { filter, after }, signal);
  if (!data.executions) {
    throw ApiError.of(errors);
  }
  return data.executions;
}

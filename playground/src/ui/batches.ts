/**
 * An action on more objects than a request may have. The ids of all objects are listed first, and the action is carried out
 * for exactly these, in batches.
 */

import { ApiError, toApiError } from "../api/errors";
import type { Connection } from "../api/hooks";
import type { BulkOutcome, BulkRequest } from "./bulk_action_dialog";
import { formatItems, formatNumber } from "./format";

/** Maximum number of objects that an action selects, as many as an export has rows. */
const MAX_SELECTED = 10_000;

/** Objects that the dry run has listed. */
export interface Listed {
  ids: readonly string[];
  unavailableShards: readonly number[];
}

export const NOTHING: Listed = { ids: [], unavailableShards: [] };

export interface Batches<Outcome extends BulkOutcome> {
  /** Word for one object, such as `execution`. */
  noun: string;
  /** Maximum number of objects in one request. */
  size: number;
  /** Carries out the action for some objects. */
  carryOut: (ids: string[], request: BulkRequest) => Promise<Outcome>;
}

/** Returns the ids of all objects of a list, page by page. Rejects if it has more than 10,000. */
export async function listAll(
  noun: string,
  page: (after: string | null) => Promise<Connection<{ id: string }>>,
  { report }: BulkRequest,
): Promise<Listed> {
  const ids: string[] = [];
  const unavailableShards = new Set<number>();
  let after: string | null = null;
  do {
    const { nodes, pageInfo, unavailableShards: missing }: Connection<{ id: string }> = await page(after);
    ids.push(...nodes.map(({ id }) => id));
    missing.forEach((shard) => unavailableShards.add(shard));
    report(`${formatItems(ids.length, noun)} found`);
    after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
    if (after !== null && ids.length >= MAX_SELECTED) {
      throw new ApiError("LIMIT_EXCEEDED", `More than ${formatNumber(MAX_SELECTED)} ${noun}s match the filter.`);
    }
  } while (after !== null);
  return { ids, unavailableShards: [...unavailableShards] };
}

/**
 * Carries out an action in batches, until one fails or the user stops it. Returns the outcome of each batch, and their sum.
 * Rejects if the first batch fails, and in a dry run if any does.
 */
export async function inBatches<Outcome extends BulkOutcome>(
  { ids, unavailableShards }: Listed,
  { noun, size, carryOut }: Batches<Outcome>,
  request: BulkRequest,
): Promise<{ outcomes: readonly Outcome[]; total: BulkOutcome }> {
  const outcomes: Outcome[] = [];
  let error: ApiError | undefined;
  let sent = 0;
  while (sent < ids.length && !request.signal.aborted && !error) {
    request.report(`${formatNumber(sent)} of ${formatItems(ids.length, noun)}`);
    try {
      outcomes.push(await carryOut(ids.slice(sent, sent + size), request));
      sent = Math.min(sent + size, ids.length);
    } catch (fault) {
      error = toApiError(fault);
    }
  }
  if (error && (request.dryRun || outcomes.length === 0)) {
    throw error;
  }
  return { outcomes, total: { ...sum(outcomes, unavailableShards), open: ids.length - sent, error } };
}

function sum(outcomes: readonly BulkOutcome[], unavailableShards: readonly number[]): BulkOutcome {
  const messages = new Set(outcomes.flatMap(({ userErrors }) => userErrors.map(({ message }) => message)));
  const shards = new Set([...unavailableShards, ...outcomes.flatMap((outcome) => outcome.unavailableShards)]);
  return {
    items: outcomes.flatMap(({ items }) => items),
    unavailableShards: [...shards],
    userErrors: [...messages].map((message) => ({ message })),
  };
}

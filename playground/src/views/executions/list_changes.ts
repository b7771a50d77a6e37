/** Changes of listed executions that arrive live, and the order of the list with them. */

import type { ExecutionListTailSubscription, ExecutionRowFragment } from "./operations.generated";

/** Newest states by id; null if the execution left the filter. */
export type Changes = ReadonlyMap<string, ExecutionRowFragment | null>;

/** Number of changes that are kept; the pages that are read again have the others. */
export const MAX_CHANGES = 1_000;

/** Returns the shards with a gap. A state that comes from a shard again ends its gap. */
export function gapsAfter(gaps: readonly number[], update: ExecutionListTailSubscription["executionListUpdates"]): readonly number[] {
  if (update.kind === "GAP" && update.shard !== null) {
    return [...new Set([...gaps, update.shard])];
  }
  const shard = update.execution?.shard;
  return shard !== undefined && gaps.includes(shard) ? gaps.filter((gap) => gap !== shard) : gaps;
}

/** Removes the oldest changes above the maximum. */
export function bounded(changes: Map<string, ExecutionRowFragment | null>): Changes {
  const surplus = [...changes.keys()].sort(laterId).slice(MAX_CHANGES);
  surplus.forEach((id) => changes.delete(id));
  return changes;
}

/** Returns the executions that no page has, and that are before the last execution of the pages if the list has more. */
export function addedTo(
  nodes: readonly ExecutionRowFragment[],
  last: ExecutionRowFragment | undefined,
  changes: Changes,
): ExecutionRowFragment[] {
  const listed = new Set(nodes.map(({ id }) => id));
  return [...changes.values()]
    .filter((change) => change !== null)
    .filter((change) => !listed.has(change.id) && (!last || newestFirst(change, last) < 0));
}

/** Returns the executions of the pages in their newest states, without those that left the filter. */
export function changed(nodes: readonly ExecutionRowFragment[], changes: Changes): ExecutionRowFragment[] {
  return nodes.flatMap((node) => (changes.has(node.id) ? (changes.get(node.id) ?? []) : node));
}

/** The order of the server: by the start, and by the id where executions started together. Times have equal lengths. */
export function newestFirst(a: ExecutionRowFragment, b: ExecutionRowFragment): number {
  const [first, second] = [a.startedAt ?? "", b.startedAt ?? ""];
  return first === second ? laterId(a.id, b.id) : first < second ? 1 : -1;
}

/** Ids are times in effect, and later ones have at least as many digits. */
function laterId(a: string, b: string): number {
  return b.length - a.length || (a < b ? 1 : -1);
}

/**
 * The listed executions as they change. Pages come from queries; a live subscription from the oldest listed execution on
 * changes their rows in place and adds later executions at the top. While it is paused, the list stays as it is.
 */

import { useEffect, useMemo, useState } from "react";

import type { ApiError } from "../../api/errors";
import { useApiPages } from "../../api/hooks";
import { follow, type LiveObserver, type LiveState } from "../../api/live";
import type { ExecutionFilter } from "../../api/schema.generated";
import {
  ExecutionListDocument,
  ExecutionListTailDocument,
  type ExecutionListTailSubscription,
  type ExecutionRowFragment,
} from "./operations.generated";

/** Number of later executions after which the pages are read again, so that the list stays short. */
const MAX_LATER = 100;
/** Number of changes that are kept; the pages that are read again have the others. */
const MAX_CHANGES = 1_000;
const DRAW_MS = 250;

/** Newest states by id; null if the execution left the filter. */
type Changes = ReadonlyMap<string, ExecutionRowFragment | null>;

export interface ExecutionList {
  rows: readonly ExecutionRowFragment[];
  pages: ReturnType<typeof useListPages>;
  live: { state: LiveState; error: ApiError | undefined };
  /** Shards whose changes may be missing. */
  gaps: readonly number[];
}

export function useExecutionList(filter: ExecutionFilter, paused: boolean): ExecutionList {
  const pages = useListPages(filter);
  const { nodes, query } = pages;
  const oldest = query.hasNextPage ? nodes.at(-1)?.startedAt : undefined;
  const ready = query.isSuccess && !query.isPlaceholderData;
  const { changes, ...stream } = useChanges(filter, oldest ?? filter.startedAfter ?? null, ready && !paused);
  const later = useMemo(() => laterThan(nodes, changes), [nodes, changes]);
  const rows = useMemo(() => [...later, ...changed(nodes, changes)], [later, nodes, changes]);
  const { refetch, isFetching } = query;
  const long = later.length > MAX_LATER;
  useEffect(() => {
    if (long && !isFetching) {
      void refetch();
    }
  }, [long, isFetching, refetch]);
  return { rows, pages, ...stream };
}

function useListPages(filter: ExecutionFilter) {
  return useApiPages(ExecutionListDocument, { filter }, (data) => data.executions);
}

function useChanges(filter: ExecutionFilter, oldest: string | null, enabled: boolean) {
  const [changes, setChanges] = useState<Changes>(new Map());
  const [live, setLive] = useState<ExecutionList["live"]>({ state: "connecting", error: undefined });
  const [gaps, setGaps] = useState<readonly number[]>([]);
  useEffect(() => setChanges(new Map()), [filter]);
  useEffect(() => {
    if (!enabled) {
      return;
    }
    const arrived = new Map<string, ExecutionRowFragment | null>();
    const timer = window.setInterval(() => {
      if (arrived.size > 0) {
        const batch = new Map(arrived);
        arrived.clear();
        setChanges((before) => bounded(new Map([...before, ...batch])));
      }
    }, DRAW_MS);
    const variables = { filter: oldest === null ? filter : { ...filter, startedAfter: oldest } };
    const observer: LiveObserver<ExecutionListTailSubscription> = {
      next: ({ executionListUpdates: update }) => {
        setGaps((before) => gapsAfter(before, update));
        if (update.executionId !== null) {
          arrived.set(update.executionId, update.kind === "LEFT_FILTER" ? null : update.execution);
        }
      },
      state: (state, error) => setLive({ state, error }),
    };
    const stop = follow(ExecutionListTailDocument, () => variables, observer);
    return () => {
      stop();
      window.clearInterval(timer);
    };
  }, [filter, oldest, enabled]);
  return { changes, live, gaps };
}

/** Returns the shards with a gap. A state that comes from a shard again ends its gap. */
function gapsAfter(gaps: readonly number[], update: ExecutionListTailSubscription["executionListUpdates"]): readonly number[] {
  if (update.kind === "GAP" && update.shard !== null) {
    return [...new Set([...gaps, update.shard])];
  }
  const shard = update.execution?.shard;
  return shard !== undefined && gaps.includes(shard) ? gaps.filter((gap) => gap !== shard) : gaps;
}

function bounded(changes: Map<string, ExecutionRowFragment | null>): Changes {
  const surplus = [...changes.keys()].sort(newestFirst).slice(MAX_CHANGES);
  surplus.forEach((id) => changes.delete(id));
  return changes;
}

/** Returns the executions that started after the newest of the pages, newest first. */
function laterThan(nodes: readonly ExecutionRowFragment[], changes: Changes): ExecutionRowFragment[] {
  const listed = new Set(nodes.map(({ id }) => id));
  const newest = nodes[0]?.startedAt ?? "";
  return [...changes.values()]
    .filter((change) => change !== null)
    .filter((change) => !listed.has(change.id) && (change.startedAt ?? "") >= newest)
    .sort((a, b) => newestFirst(a.id, b.id));
}

/** Returns the executions of the pages in their newest states, without those that left the filter. */
function changed(nodes: readonly ExecutionRowFragment[], changes: Changes): ExecutionRowFragment[] {
  return nodes.flatMap((node) => (changes.has(node.id) ? (changes.get(node.id) ?? []) : node));
}

/** Ids are times in effect, and later ones have at least as many digits. */
function newestFirst(a: string, b: string): number {
  return b.length - a.length || (a < b ? 1 : -1);
}

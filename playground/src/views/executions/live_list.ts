/**
 * The listed executions as they change. Pages come from queries; a live subscription from the oldest listed execution on
 * changes their rows in place and adds later executions at the top. While it is paused, the list stays as it is.
 */

import { useEffect, useMemo, useState } from "react";

import type { ApiError } from "../../api/errors";
import { useApiPages } from "../../api/hooks";
import { follow, type LiveState } from "../../api/live";
import type { ExecutionFilter } from "../../api/schema.generated";
import { ExecutionListDocument, ExecutionListTailDocument, type ExecutionRowFragment } from "./operations.generated";

/** Largest number of later executions that the list adds. A reload of the list shows the others. */
const MAX_LATER = 1_000;
const DRAW_MS = 250;

/** Newest states by id; null if the execution left the filter. */
type Changes = ReadonlyMap<string, ExecutionRowFragment | null>;

export interface ExecutionList {
  rows: readonly ExecutionRowFragment[];
  pages: ReturnType<typeof useListPages>;
  live: { state: LiveState; error: ApiError | undefined };
}

export function useExecutionList(filter: ExecutionFilter, paused: boolean): ExecutionList {
  const pages = useListPages(filter);
  const { nodes, query } = pages;
  const oldest = query.hasNextPage ? nodes.at(-1)?.startedAt : undefined;
  const ready = query.isSuccess && !query.isPlaceholderData;
  const { changes, live } = useChanges(filter, oldest ?? filter.startedAfter ?? null, ready && !paused);
  const rows = useMemo(() => merged(nodes, changes), [nodes, changes]);
  return { rows, pages, live };
}

function useListPages(filter: ExecutionFilter) {
  return useApiPages(ExecutionListDocument, { filter }, (data) => data.executions);
}

function useChanges(filter: ExecutionFilter, oldest: string | null, enabled: boolean) {
  const [changes, setChanges] = useState<Changes>(new Map());
  const [live, setLive] = useState<ExecutionList["live"]>({ state: "connecting", error: undefined });
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
    const variables = { filter: oldest === null ? filter : { ...filter, startedAfter: oneMillisecondBefore(oldest) } };
    const stop = follow(ExecutionListTailDocument, () => variables, {
      next: ({ executionListUpdates: update }) => {
        if (update.id !== null) {
          arrived.set(update.id, update.kind === "LEFT_FILTER" ? null : update.execution);
        }
      },
      state: (state, error) => setLive({ state, error }),
    });
    return () => {
      stop();
      window.clearInterval(timer);
    };
  }, [filter, oldest, enabled]);
  return { changes, live };
}

function oneMillisecondBefore(time: string): string {
  return new Date(Date.parse(time) - 1).toISOString();
}

function bounded(changes: Map<string, ExecutionRowFragment | null>): Changes {
  const surplus = [...changes.keys()].sort(newestFirst).slice(MAX_LATER);
  surplus.forEach((id) => changes.delete(id));
  return changes;
}

function merged(nodes: readonly ExecutionRowFragment[], changes: Changes): ExecutionRowFragment[] {
  const listed = new Set(nodes.map(({ id }) => id));
  const newest = nodes[0]?.startedAt ?? "";
  const later = [...changes.values()].filter(
    (change) => change !== null && !listed.has(change.id) && (change.startedAt ?? "") >= newest,
  ) as ExecutionRowFragment[];
  const changed = nodes.flatMap((node) => (changes.has(node.id) ? (changes.get(node.id) ?? []) : node));
  return [...later.sort((a, b) => newestFirst(a.id, b.id)), ...changed];
}

/** Ids are times in effect, and later ones have at least as many digits. */
function newestFirst(a: string, b: string): number {
  return b.length - a.length || (a < b ? 1 : -1);
}

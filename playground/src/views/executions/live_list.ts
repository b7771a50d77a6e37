/**
 * The listed executions as they change. Pages come from queries; a live subscription from the oldest listed execution on
 * changes their rows in place and adds other executions. While it is paused, and in another order than newest first, the
 * list stays as it is.
 */

import { useEffect, useMemo, useRef, useState } from "react";

import type { ApiError } from "../../api/errors";
import { useApiPages } from "../../api/hooks";
import { follow, type LiveObserver, type LiveState } from "../../api/live";
import type { ExecutionFilter, ExecutionOrder } from "../../api/schema.generated";
import { addedTo, bounded, changed, gapsAfter, MAX_CHANGES, newestFirst, type Changes } from "./list_changes";
import {
  ExecutionListDocument,
  ExecutionListTailDocument,
  type ExecutionListTailSubscription,
  type ExecutionRowFragment,
} from "./operations.generated";
import { NEWEST } from "./order";

/** Number of executions that no page has after which the pages are read again, so that the list stays short. */
const MAX_ADDED = 100;
/** Greatest number of executions that no page has: a longer list is read again less often, because it has more pages. */
const MAX_ADDED_TO_LONG = MAX_CHANGES / 2;
const DRAW_MS = 250;

const NOT_LIVE: ExecutionList["live"] = { state: "ended", error: undefined };
const CONNECTING: ExecutionList["live"] = { state: "connecting", error: undefined };

export interface ExecutionList {
  rows: readonly ExecutionRowFragment[];
  pages: ReturnType<typeof useListPages>;
  live: { state: LiveState; error: ApiError | undefined };
  /** Shards whose changes may be missing. */
  gaps: readonly number[];
}

export function useExecutionList(filter: ExecutionFilter, order: ExecutionOrder, paused: boolean): ExecutionList {
  const pages = useListPages(filter, order);
  const { nodes, query } = pages;
  const last = query.hasNextPage ? nodes.at(-1) : undefined;
  // A read that fails while the server is away does not end the stream, which connects again by itself.
  const ready = query.data !== undefined && !query.isPlaceholderData;
  const isLive = order === NEWEST;
  const oldest = last?.startedAt ?? filter.startedAfter ?? null;
  const { changes, ...stream } = useChanges(filter, order, oldest, isLive && ready, paused);
  const added = useMemo(() => (isLive ? addedTo(nodes, last, changes) : []), [isLive, nodes, last, changes]);
  const rows = useMemo(
    () => (isLive ? [...added, ...changed(nodes, changes)].sort(newestFirst) : nodes),
    [isLive, added, nodes, changes],
  );
  const { refetch, isFetching } = query;
  const long = added.length > Math.min(MAX_ADDED_TO_LONG, Math.max(MAX_ADDED, nodes.length / 4));
  // The pages are read at most once for a change: if they still lack executions, the next change may bring them.
  const reloaded = useRef<Changes>(null);
  useEffect(() => {
    if (long && !isFetching && reloaded.current !== changes) {
      reloaded.current = changes;
      void refetch();
    }
  }, [long, isFetching, changes, refetch]);
  useReadAgain(isLive && !paused, stream.live.state, refetch);
  return isLive ? { rows, pages, ...stream } : { rows, pages, live: NOT_LIVE, gaps: [] };
}

/** Reads the pages again when the list is live again: its stream does not say which executions left the filter before. */
function useReadAgain(enabled: boolean, state: LiveState, refetch: () => unknown) {
  const outdated = useRef(false);
  useEffect(() => {
    if (!enabled || state === "reconnecting") {
      outdated.current = true;
    } else if (state === "live" && outdated.current) {
      outdated.current = false;
      void refetch();
    }
  }, [enabled, state, refetch]);
}

function useListPages(filter: ExecutionFilter, order: ExecutionOrder) {
  return useApiPages(ExecutionListDocument, { filter, order, withReruns: true }, (data) => data.executions);
}

function useChanges(filter: ExecutionFilter, order: ExecutionOrder, oldest: string | null, live: boolean, paused: boolean) {
  const [changes, setChanges] = useState<Changes>(new Map());
  const [stream, setStream] = useState(CONNECTING);
  const [gaps, setGaps] = useState<readonly number[]>([]);
  // Changes are outdated once no stream continues them. A list that is paused stays as it is.
  useEffect(() => setChanges(new Map()), [filter, order]);
  useEffect(() => {
    if (!paused) {
      setChanges(new Map());
    }
  }, [paused]);
  const enabled = live && !paused;
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
      state: (state, error) => setStream({ state, error }),
    };
    const stop = follow(ExecutionListTailDocument, () => variables, observer);
    return () => {
      stop();
      window.clearInterval(timer);
      setStream(CONNECTING);
    };
  }, [filter, oldest, enabled]);
  return { changes, live: stream, gaps };
}

/** An execution as it changes: a query reads all of it, and a live subscription its state until it ends. */

import { useEffect, useState } from "react";

import type { ApiError } from "../../api/errors";
import { useApiQuery } from "../../api/hooks";
import { follow, type LiveState } from "../../api/live";
import {
  ExecutionDetailDocument,
  ExecutionTailDocument,
  type ExecutionDetailQuery,
  type ExecutionStateFragment,
} from "./operations.generated";

export type Execution = NonNullable<ExecutionDetailQuery["execution"]>;
export type StepState = NonNullable<ExecutionStateFragment["steps"]>["nodes"][number];

interface Live {
  state: LiveState;
  error: ApiError | undefined;
  /** Newest state; null until the first one arrived. */
  execution: ExecutionStateFragment | null;
}

const CONNECTING: Live = { state: "connecting", error: undefined, execution: null };

export function useExecution(id: string) {
  const query = useApiQuery(ExecutionDetailDocument, { id });
  const known = query.data && !query.isPlaceholderData ? query.data.data.execution : undefined;
  const { refetch } = query;
  const [live, setLive] = useState(CONNECTING);
  const running = known !== undefined && known !== null && known.endedAt === null;
  useEffect(() => {
    if (!running) {
      return;
    }
    setLive(CONNECTING);
    const observer = {
      next: ({ executionUpdates: update }: { executionUpdates: { kind: string; execution: ExecutionStateFragment | null } }) => {
        if (update.execution) {
          setLive((before) => ({ ...before, execution: update.execution }));
        }
        if (update.kind === "ENDED") {
          void refetch();
        }
      },
      state: (state: LiveState, error?: ApiError) => setLive((before) => ({ ...before, state, error })),
    };
    return follow(ExecutionTailDocument, () => ({ id }), observer, { finite: true });
  }, [id, running, refetch]);
  return { query, live, execution: known && newest(known, live.execution) };
}

/** The status of a query can be older than its events, so an update about the same events is preferred. */
function newest(known: Execution, update: ExecutionStateFragment | null): Execution {
  const later = update?.id === known.id && Number(update.eventCount) >= Number(known.eventCount);
  return later ? { ...known, ...update } : known;
}

/** The state of an execution after an event of its log. */

import type { ApiError } from "../../api/errors";
import { useApiQuery } from "../../api/hooks";
import type { Execution } from "./live_execution";
import { ExecutionMomentDocument, type LogEventFragment } from "./operations.generated";

interface Moment {
  shown: Execution;
  /** The event; null at the newest state, and until it was read. */
  event: LogEventFragment | null;
  error: ApiError | null;
}

/** Returns the execution with its state after the event; with its newest state if the event is undefined. */
export function useMoment(execution: Execution, event: string | undefined): Moment {
  const enabled = event !== undefined;
  const { data, error } = useApiQuery(ExecutionMomentDocument, { id: execution.id, event: event ?? "" }, { enabled });
  const state = data?.data.executionState;
  if (!enabled || state?.executionId !== execution.id) {
    return { shown: execution, event: null, error: enabled ? error : null };
  }
  return { shown: { ...execution, ...state }, event: data?.data.event ?? null, error };
}

/** The state of an execution after an event of its log. */

import type { ApiError } from "../../api/errors";
import { useApiQuery } from "../../api/hooks";
import type { Execution } from "./live_execution";
import { ExecutionMomentDocument } from "./operations.generated";

/** Returns the execution with its state after the event; with its newest state if the event is undefined. */
export function useMoment(execution: Execution, event: string | undefined): { shown: Execution; error: ApiError | null } {
  const enabled = event !== undefined;
  const { data, error } = useApiQuery(ExecutionMomentDocument, { id: execution.id, event: event ?? "" }, { enabled });
  const state = data?.data.executionState;
  if (!enabled || state?.executionId !== execution.id) {
    return { shown: execution, error: enabled ? error : null };
  }
  return { shown: { ...execution, ...state }, error };
}

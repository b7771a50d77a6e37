/** The state of an execution after an event of its log. */

import type { ApiError } from "../../api/errors";
import { useApiQuery } from "../../api/hooks";
import type { Execution } from "./live_execution";
import { ExecutionMomentDocument } from "./operations.generated";

/** Returns the execution with its state after the event; with its newest state if the event is undefined. */
export function useMoment(execution: Execution, event: string | undefined): { shown: Execution; error: ApiError | null } {
  const enabled = event !== undefined;
  const { data, error } = useApiQuery(ExecutionMomentDocument, { id: execution.id, event: event ?? "" }, { enabled });
  const moment = data?.data.execution;
  if (!enabled || moment?.id !== execution.id) {
    return { shown: execution, error: enabled ? error : null };
  }
  const { eventCount: _, ...state } = moment;
  return { shown: { ...execution, ...state }, error };
}

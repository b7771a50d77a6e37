/** Cancels the filtered or the selected executions. The dry run shows before which ones these are. */

import { IconPlayerStop } from "@tabler/icons-react";

import { send } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { ExecutionFilter } from "../../api/schema.generated";
import type { BulkItem, BulkRequest } from "../../ui/bulk_action_dialog";
import { BulkAction, type BatchOutcome } from "./bulk_action";
import { OPEN } from "./filter";
import { CancelExecutionsDocument, type CancelExecutionsMutation } from "./operations.generated";
import type { Target } from "./target";

/** Maximum number of executions in one request, which the server sets. */
const BATCH_SIZE = 1_000;

export function CancelMany({ target }: { target: Target }) {
  return (
    <BulkAction
      target={target}
      narrow={openOnly}
      capability="CANCEL"
      icon={<IconPlayerStop size={14} />}
      verb="Cancel"
      action="Cancel executions"
      keep="Keep running"
      description="Executions that have ended stay as they are. No further step of the others begins. A step that a worker runs now is not interrupted."
      dangerous
      withReason
      batchSize={BATCH_SIZE}
      carryOut={cancel}
    />
  );
}

/** Returns the filter without the statuses of executions that have ended; null if no other status is left. */
function openOnly(filter: ExecutionFilter): ExecutionFilter | null {
  const statuses = OPEN.filter((status) => filter.statuses?.includes(status) ?? true);
  return statuses.length > 0 ? { ...filter, statuses } : null;
}

async function cancel(ids: string[], { dryRun, reason }: BulkRequest): Promise<BatchOutcome> {
  const { data, errors } = await send(CancelExecutionsDocument, { input: { select: { ids }, dryRun, reason } });
  if (!data.cancelExecutions) {
    throw ApiError.of(errors);
  }
  return outcomeOf(data.cancelExecutions);
}

type Payload = NonNullable<CancelExecutionsMutation["cancelExecutions"]>;

function outcomeOf({ results, complete, continueWith, unavailableShards, userErrors }: Payload): BatchOutcome {
  const more = { message: "Some executions are not cancelled yet. Repeat the action to continue." };
  return {
    items: results.map(itemOf),
    complete,
    unavailableShards,
    userErrors: continueWith.length > 0 && userErrors.length === 0 ? [more] : userErrors,
  };
}

function itemOf(result: Payload["results"][number]): BulkItem {
  const refusal = result.userErrors.map(({ message }) => message).join(" ");
  return {
    id: result.executionId,
    name: `${result.execution?.path ?? "Unknown path"} ${result.executionId}`,
    applied: result.cancelled,
    result: refusal || (result.cancelled ? "Cancelled" : (result.execution?.status.toLowerCase() ?? "Unchanged")),
  };
}

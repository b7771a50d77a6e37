/** Cancels the executions that match the filter. The dry run shows before which ones these are. */

import { IconPlayerStop } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { send } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { ExecutionFilter } from "../../api/schema.generated";
import { BulkActionDialog, type BulkItem, type BulkOutcome } from "../../ui/bulk_action_dialog";
import { PermittedButton } from "../../ui/permitted_button";
import { CancelExecutionsDocument, type CancelExecutionsMutation } from "./operations.generated";

export function CancelFiltered({ filter }: { filter: ExecutionFilter }) {
  const [opened, setOpened] = useState(false);
  const queries = useQueryClient();
  // The server refuses a filter without conditions, and has another selector for all executions.
  const select = Object.keys(filter).length > 0 ? { filter } : { all: true };

  async function run(request: { dryRun: boolean; reason: string | null }): Promise<BulkOutcome> {
    const { data, errors } = await send(CancelExecutionsDocument, { input: { ...request, select } });
    if (!data.cancelExecutions) {
      throw ApiError.of(errors);
    }
    if (!request.dryRun) {
      void queries.invalidateQueries();
    }
    return outcomeOf(data.cancelExecutions);
  }

  return (
    <>
      <PermittedButton
        capability="CANCEL"
        variant="default"
        leftSection={<IconPlayerStop size={14} />}
        onClick={() => setOpened(true)}
      >
        Cancel filtered…
      </PermittedButton>
      <BulkActionDialog
        opened={opened}
        title="Cancel the filtered executions that have not ended"
        action="Cancel executions"
        dangerous
        run={run}
        onClose={() => setOpened(false)}
      />
    </>
  );
}

type Payload = NonNullable<CancelExecutionsMutation["cancelExecutions"]>;

function outcomeOf(payload: Payload): BulkOutcome {
  const rest = payload.continueWith.length;
  const more = { message: `${rest} executions are not cancelled yet. Repeat the action to continue.` };
  return {
    items: payload.results.map(itemOf),
    unavailableShards: payload.unavailableShards,
    userErrors: rest > 0 && payload.userErrors.length === 0 ? [more] : payload.userErrors,
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

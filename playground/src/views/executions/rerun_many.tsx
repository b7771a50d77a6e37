/** Runs the filtered or the selected executions again. The dry run shows before which ones these are. */

import { Group } from "@mantine/core";
import { IconRepeat } from "@tabler/icons-react";

import { send } from "../../api/client";
import { WINDOW_SECONDS } from "../../api/dedup_key";
import { ApiError } from "../../api/errors";
import type { BulkItem, BulkRequest } from "../../ui/bulk_action_dialog";
import { IdLink } from "../../ui/id_link";
import { BulkAction, type BatchOutcome } from "./bulk_action";
import { RerunExecutionsDocument, type RerunExecutionsMutation } from "./operations.generated";
import type { Target } from "./target";

/** Number of executions in one request, whose workloads must fit into the server's limit for one operation. */
const BATCH_SIZE = 200;

export function RerunMany({ target }: { target: Target }) {
  return (
    <BulkAction
      target={target}
      capability="EXECUTE"
      icon={<IconRepeat size={14} />}
      verb="Rerun"
      action="Rerun"
      done="started"
      description="Each of these executions is started once more with its version, workload and pool, also if it has not ended."
      dangerous={false}
      withReason={false}
      batchSize={BATCH_SIZE}
      carryOut={rerun}
    />
  );
}

async function rerun(ids: string[], { dryRun }: BulkRequest, key: string): Promise<BatchOutcome> {
  const dedup = { key, windowSeconds: WINDOW_SECONDS };
  const { data, errors } = await send(RerunExecutionsDocument, { input: { select: { ids }, dryRun, dedup }, dryRun });
  if (!data.rerunExecutions) {
    throw ApiError.of(errors);
  }
  return outcomeOf(data.rerunExecutions, dryRun);
}

type Payload = NonNullable<RerunExecutionsMutation["rerunExecutions"]>;

function outcomeOf(payload: Payload, dryRun: boolean): BatchOutcome {
  const { results, complete, continueWith, unavailableShards, userErrors } = payload;
  const more = { message: "Some executions may have no rerun yet. Repeat the action: it starts nothing twice." };
  return {
    items: results.map((result) => itemOf(result, dryRun)),
    complete,
    again: results.filter(({ outcome, origin }) => outcome === "STARTED" && origin?.reruns?.nodes.length).length,
    started: results.flatMap(({ originId, execution }) => (execution ? [{ originId, ...execution }] : [])),
    repeated: results.some(({ outcome }) => outcome === "DUPLICATE"),
    unavailableShards,
    userErrors: continueWith.length > 0 && userErrors.length === 0 ? [more] : userErrors,
  };
}

function itemOf({ originId, origin, executionId, outcome, userErrors }: Payload["results"][number], dryRun: boolean): BulkItem {
  const words = outcome === "DUPLICATE" ? "Started before" : dryRun ? "Rerun" : "Started";
  const refusal = userErrors.map(({ message }) => message).join(" ");
  return {
    id: originId,
    name: `${origin?.path ?? "Unknown path"} ${originId}`,
    applied: outcome === "STARTED",
    result:
      outcome === null ? (
        refusal
      ) : (
        <Group gap={6}>
          {words}
          {executionId !== null && <IdLink kind="execution" id={executionId} />}
        </Group>
      ),
  };
}

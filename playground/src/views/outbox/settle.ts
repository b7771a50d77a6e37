/** Retry and discard: what they select, and their results. Retry makes entries claimable; discard deletes dead letters. */

import type { OutboxSelector, OutboxStatus } from "../../api/schema.generated";
import { useApiMutation } from "../../api/hooks";
import { DiscardOutboxDocument, RetryOutboxDocument } from "./operations.generated";

export type Settlement = "retry" | "discard";

interface Words {
  label: string;
  effect: string;
  /** Effect on one entry. */
  effectOnOne: string;
  /** Result for one entry, in the past. */
  done: string;
  /** Statuses of the entries that the action changes. */
  statuses: readonly OutboxStatus[];
}

export const SETTLEMENTS: Record<Settlement, Words> = {
  retry: {
    label: "Retry",
    effect: "Dead letters, and failed entries that wait for their next attempt, can be claimed immediately.",
    effectOnOne: "The entry can be claimed immediately. The attempts of a dead letter count from 0 again.",
    done: "can be claimed",
    statuses: ["FAILED", "DEAD"],
  },
  discard: {
    label: "Discard",
    effect:
      "Dead letters are deleted. Their messages are never delivered. This can't be undone. Executions that wait for the messages " +
      "stay as they are until someone cancels them.",
    effectOnOne:
      "The entry is deleted. Its message is never delivered. This can't be undone. An execution that waits for the message stays " +
      "as it is until someone cancels it.",
    done: "deleted",
    statuses: ["DEAD"],
  },
};

export interface SettlementResult {
  /** Number of selected entries that the action changes. */
  matched: number;
  /** Number of changed entries; 0 in a dry run. */
  changed: number;
  unavailableShards: readonly number[];
  userErrors: readonly { message: string }[];
}

/** Returns a function that sends a request to retry or to discard entries. */
export function useSettle() {
  const { mutateAsync: retry } = useApiMutation(RetryOutboxDocument);
  const { mutateAsync: discard } = useApiMutation(DiscardOutboxDocument);
  return async (
    settlement: Settlement,
    select: OutboxSelector,
    { dryRun, reason }: { dryRun: boolean; reason: string | null },
  ): Promise<SettlementResult> => {
    const input = { select, dryRun, reason };
    if (settlement === "retry") {
      const { data, errors } = await retry({ input });
      return data.retryOutbox ? { ...data.retryOutbox, changed: data.retryOutbox.retried } : nothing(errors);
    }
    const { data, errors } = await discard({ input });
    return data.discardOutbox ? { ...data.discardOutbox, changed: data.discardOutbox.discarded } : nothing(errors);
  };
}

function nothing(userErrors: readonly { message: string }[]): SettlementResult {
  return { matched: 0, changed: 0, unavailableShards: [], userErrors };
}

/** Retry and discard of all entries that match the filter. The dry run counts them, and the first ones are listed. */

import { useState } from "react";

import { send } from "../../api/client";
import type { OutboxFilter } from "../../api/schema.generated";
import { BulkActionDialog, type BulkItem, type BulkOutcome, type BulkRequest } from "../../ui/bulk_action_dialog";
import { PermittedButton } from "../../ui/permitted_button";
import { inWords } from "../../ui/status_badge";
import { withStatuses } from "./filter";
import { OutboxEntriesDocument } from "./operations.generated";
import { SETTLEMENTS, useSettle, type Settlement } from "./settle";

interface Props {
  filter: OutboxFilter | null;
  /** Whether a text that only the page searches for hides a part of the list. */
  searching: boolean;
}

const SEARCHING = "Clear the field Find in the list first. The actions use only the filter of the server.";

export function BulkActions({ filter, searching }: Props) {
  const [settlement, setSettlement] = useState<Settlement | null>(null);
  const settle = useSettle();

  async function run(chosen: Settlement, request: BulkRequest): Promise<BulkOutcome> {
    const { matched, changed, unavailableShards, userErrors } = await settle(chosen, filter ? { filter } : { all: true }, request);
    const { dryRun } = request;
    const items = dryRun && matched > 0 ? await examples(chosen, filter) : [];
    return { items, count: dryRun ? matched : changed, unavailableShards, userErrors };
  }
  return (
    <>
      {(["retry", "discard"] as const).map((offered) => (
        <PermittedButton
          key={offered}
          capability="RETRY"
          variant={offered === "discard" ? "outline" : "default"}
          {...(offered === "discard" && { color: "red" })}
          {...(searching && { refusal: SEARCHING })}
          onClick={() => setSettlement(offered)}
        >
          {SETTLEMENTS[offered].label} all in the list…
        </PermittedButton>
      ))}
      {settlement && (
        <BulkActionDialog
          opened
          title={`${SETTLEMENTS[settlement].label} outbox entries`}
          action={SETTLEMENTS[settlement].label}
          dangerous={settlement === "discard"}
          description={`${filter ? "Entries that match the filter." : "All entries."} ${SETTLEMENTS[settlement].effect}`}
          run={(request) => run(settlement, request)}
          onClose={() => setSettlement(null)}
        />
      )}
    </>
  );
}

/** Returns the first entries that an action may change. Failed entries that are due need no retry. */
async function examples(settlement: Settlement, filter: OutboxFilter | null): Promise<BulkItem[]> {
  const candidates = withStatuses(filter, SETTLEMENTS[settlement].statuses);
  if (!candidates) {
    return [];
  }
  const { data } = await send(OutboxEntriesDocument, { filter: candidates });
  const now = Date.now();
  return (data.outbox?.entries?.nodes ?? [])
    .filter(({ status, availableAt }) => status === "DEAD" || Date.parse(availableAt) > now)
    .map(({ id, entryId, subject, status }) => ({
      id,
      name: `${entryId} ${subject ?? ""}`,
      applied: true,
      result: `${inWords(status)} → ${SETTLEMENTS[settlement].done}`,
    }));
}

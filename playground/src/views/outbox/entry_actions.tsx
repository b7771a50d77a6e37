/** Retry and discard of one entry, if its status allows them. Each asks for a reason first. */

import { Group, type ButtonVariant } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import type { ApiError } from "../../api/errors";
import { ConfirmDialog, UserErrors } from "../../ui/confirm_dialog";
import { PermittedButton } from "../../ui/permitted_button";
import { Failure } from "../../ui/states";
import type { OutboxEntryFieldsFragment } from "./operations.generated";
import { SETTLEMENTS, useSettle, type Settlement, type SettlementResult } from "./settle";

interface Props {
  entry: Pick<OutboxEntryFieldsFragment, "id" | "entryId" | "status">;
  /** Size of the buttons: small ones stand in a row of the table. */
  size: "xs" | "compact-xs";
  /** Called after the entry is deleted. */
  onDiscarded?: () => void;
}

export function EntryActions({ entry, size, onDiscarded }: Props) {
  const [asking, setAsking] = useState(false);
  // It stays while the dialog closes, so that its words do not change.
  const [chosen, setChosen] = useState<Settlement>("discard");
  const settle = useSettle();
  const change = useMutation<SettlementResult, ApiError, { settlement: Settlement; reason: string | null }>({
    mutationFn: ({ settlement, reason }) => settle(settlement, { ids: [entry.id] }, { dryRun: false, reason }),
    onSuccess: ({ changed }, { settlement }) => changed > 0 && settlement === "discard" && onDiscarded?.(),
    onSettled: () => setAsking(false),
  });
  const offered = (["retry", "discard"] as const).filter((settlement) => SETTLEMENTS[settlement].statuses.includes(entry.status));
  return (
    <>
      {offered.length > 0 && (
        <Group gap={6} wrap="nowrap" justify={size === "xs" ? "flex-start" : "flex-end"}>
          {offered.map((settlement) => (
            <PermittedButton
              key={settlement}
              capability="RETRY"
              size={size}
              variant={variantOf(settlement, size)}
              {...(settlement === "discard" && { color: "red" })}
              loading={change.isPending && change.variables.settlement === settlement}
              onClick={() => {
                setChosen(settlement);
                setAsking(true);
              }}
            >
              {SETTLEMENTS[settlement].label}
            </PermittedButton>
          ))}
        </Group>
      )}
      {change.error && <Failure error={change.error} />}
      <UserErrors errors={change.data?.userErrors ?? []} />
      <ConfirmDialog
        opened={asking}
        title={`${SETTLEMENTS[chosen].label} the entry ${entry.entryId}?`}
        action={SETTLEMENTS[chosen].label}
        dangerous={chosen === "discard"}
        busy={change.isPending}
        onConfirm={(reason) => change.mutate({ settlement: chosen, reason })}
        onClose={() => setAsking(false)}
      >
        {SETTLEMENTS[chosen].effectOnOne}
      </ConfirmDialog>
    </>
  );
}

/** In a row of the table, the dangerous action is quiet. */
function variantOf(settlement: Settlement, size: Props["size"]): ButtonVariant {
  if (settlement === "retry") {
    return "default";
  }
  return size === "xs" ? "outline" : "subtle";
}

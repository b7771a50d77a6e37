/** Actions on all subscriptions that match the filter. The dialog shows first what would happen to each. */

import { Button, Menu } from "@mantine/core";
import { IconChevronDown } from "@tabler/icons-react";
import { useState } from "react";

import { useApiMutation } from "../../api/hooks";
import type { SubscriptionAction, SubscriptionFilter } from "../../api/schema.generated";
import { usePermission } from "../../api/viewer";
import { BulkActionDialog, type BulkOutcome } from "../../ui/bulk_action_dialog";
import { PermittedButton } from "../../ui/permitted_button";
import { inWords } from "../../ui/status_badge";
import { ACTION_ORDER, ACTIONS } from "./actions";
import { TransitionSubscriptionsDocument, type TransitionSubscriptionsMutation } from "./operations.generated";

interface Props {
  /** Filter of the list; null if it has all subscriptions. */
  filter: SubscriptionFilter | null;
  /** The selected subscriptions in words. */
  selected: string;
}

export function BulkActions({ filter, selected }: Props) {
  const [action, setAction] = useState<SubscriptionAction | null>(null);
  const { mutateAsync } = useApiMutation(TransitionSubscriptionsDocument);

  async function run(chosen: SubscriptionAction, dryRun: boolean, reason: string | null): Promise<BulkOutcome> {
    const select = filter ? { filter } : { all: true };
    const { data, errors } = await mutateAsync({ input: { action: chosen, dryRun, reason, select } });
    return outcomeOf(data, chosen, dryRun) ?? { items: [], unavailableShards: [], userErrors: errors };
  }
  return (
    <>
      <BulkMenu onChoose={setAction} />
      {action && (
        <BulkActionDialog
          opened
          title={`${ACTIONS[action].label} subscriptions`}
          action={ACTIONS[action].label}
          dangerous={ACTIONS[action].confirmed}
          description={`${selected} ${ACTIONS[action].effect.replace(/\bIt\b/g, "Each").replace(/\bits\b/g, "its")}`}
          run={({ dryRun, reason }) => run(action, dryRun, reason)}
          onClose={() => setAction(null)}
        />
      )}
    </>
  );
}

function BulkMenu({ onChoose }: { onChoose: (action: SubscriptionAction) => void }) {
  const { allowed } = usePermission("LIFECYCLE");
  if (!allowed) {
    return (
      <PermittedButton capability="LIFECYCLE" variant="default" onClick={() => {}}>
        Change all in the list
      </PermittedButton>
    );
  }
  return (
    <Menu position="bottom-end" shadow="md" withInitialFocusPlaceholder={false}>
      <Menu.Target>
        <Button variant="default" size="xs" rightSection={<IconChevronDown size={14} />}>
          Change all in the list
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {ACTION_ORDER.map((action) => (
          <Menu.Item key={action} {...(ACTIONS[action].confirmed && { c: "var(--noetl-bad)" })} onClick={() => onChoose(action)}>
            {ACTIONS[action].label}…
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function outcomeOf(data: TransitionSubscriptionsMutation, action: SubscriptionAction, dryRun: boolean): BulkOutcome | null {
  const payload = data.transitionSubscriptions;
  if (!payload) {
    return null;
  }
  const { target } = ACTIONS[action];
  const items = payload.results.map(({ subscriptionId: id, applied, subscription, userErrors }) => {
    const status = subscription?.status ?? "UNKNOWN";
    const change = dryRun && status !== target ? `${inWords(status)} → ${inWords(target)}` : inWords(status);
    const refusal = userErrors.map((error) => error.message).join(" ");
    return { id, name: subscription?.path ?? id, applied, result: applied ? change : refusal };
  });
  return { items, unavailableShards: payload.unavailableShards, userErrors: payload.userErrors };
}

/**
 * Actions on all subscriptions that match the filter. The dialog shows first what would happen to each. The action is
 * carried out for exactly these, in batches.
 */

import { Button, Menu } from "@mantine/core";
import { IconChevronDown } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { send } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { SubscriptionAction, SubscriptionFilter } from "../../api/schema.generated";
import { sendAgain } from "../../api/send_again";
import { usePermission } from "../../api/viewer";
import { inBatches, listAll, NOTHING } from "../../ui/batches";
import { BulkActionDialog, type BulkOutcome, type BulkRequest } from "../../ui/bulk_action_dialog";
import { PermittedButton } from "../../ui/permitted_button";
import { inWords } from "../../ui/status_badge";
import { ACTION_ORDER, ACTIONS } from "./actions";
import { changedBy } from "./filter";
import {
  SelectedSubscriptionsDocument,
  TransitionSubscriptionsDocument,
  type TransitionSubscriptionsMutation,
} from "./operations.generated";

/** Maximum number of subscriptions in one request, which the server sets. */
const BATCH_SIZE = 1_000;

interface Props {
  /** Filter of the list; null if it has all subscriptions. */
  filter: SubscriptionFilter | null;
  /** The selected subscriptions in words. */
  selected: string;
}

export function BulkActions({ filter, selected }: Props) {
  const [action, setAction] = useState<SubscriptionAction | null>(null);
  const queries = useQueryClient();
  const listed = useRef(NOTHING);

  async function run(chosen: SubscriptionAction, request: BulkRequest): Promise<BulkOutcome> {
    const { dryRun, signal } = request;
    if (dryRun) {
      listed.current = await listAll("subscription", (after) => selectedPage(changedBy(filter), after, signal), request);
    }
    const carryOut = (ids: string[]) => transition(ids, chosen, request);
    const batches = inBatches(listed.current, { noun: "subscription", size: BATCH_SIZE, carryOut }, request);
    const { total } = await batches.finally(() => !dryRun && void sendAgain(queries));
    return total;
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
          run={(request) => run(action, request)}
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

async function selectedPage(filter: SubscriptionFilter, after: string | null, signal: AbortSignal) {
  const { data, errors } = await send(SelectedSubscriptionsDocument, { filter, after }, signal);
  if (!data.subscriptions) {
    throw ApiError.of(errors);
  }
  return data.subscriptions;
}

async function transition(ids: string[], action: SubscriptionAction, { dryRun, reason }: BulkRequest): Promise<BulkOutcome> {
  const input = { action, dryRun, reason, select: { ids } };
  const { data, errors } = await send(TransitionSubscriptionsDocument, { input });
  if (!data.transitionSubscriptions) {
    throw ApiError.of(errors);
  }
  return outcomeOf(data.transitionSubscriptions, action, dryRun);
}

type Payload = NonNullable<TransitionSubscriptionsMutation["transitionSubscriptions"]>;

function outcomeOf(payload: Payload, action: SubscriptionAction, dryRun: boolean): BulkOutcome {
  const { target } = ACTIONS[action];
  const items = payload.results.map(({ subscriptionId: id, applied, subscription, userErrors }) => {
    const status = subscription?.status ?? "UNKNOWN";
    const change = dryRun && status !== target ? `${inWords(status)} → ${inWords(target)}` : inWords(status);
    const refusal = userErrors.map((error) => error.message).join(" ");
    return { id, name: subscription?.path ?? id, applied, result: applied ? change : refusal };
  });
  return { items, unavailableShards: payload.unavailableShards, userErrors: payload.userErrors };
}

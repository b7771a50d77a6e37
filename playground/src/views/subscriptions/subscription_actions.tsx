/**
 * The actions on one subscription that its status allows. Drain and deactivate ask for confirmation and a reason, and
 * are refused if the status has changed since it was shown.
 */

import { ActionIcon, Group, Menu } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import { useState } from "react";

import type { SubscriptionAction } from "../../api/schema.generated";
import { usePermission } from "../../api/viewer";
import { ConfirmDialog } from "../../ui/confirm_dialog";
import { PermittedButton } from "../../ui/permitted_button";
import { ACTION_ORDER, ACTIONS, CHANGE_ONE } from "./actions";
import type { SubscriptionFieldsFragment } from "./operations.generated";
import type { TransitionState } from "./use_transition";

/** An action that the user is asked about, and the version of the subscription that the user saw. */
interface Question {
  action: SubscriptionAction;
  lastEventId: string;
}

interface Props {
  subscription: SubscriptionFieldsFragment;
  transition: TransitionState;
  /** Whether all but the first action are in a menu (default false). */
  compact?: boolean;
}

export function SubscriptionActions({ subscription, transition, compact = false }: Props) {
  const [asking, setAsking] = useState<Question | null>(null);
  const available = ACTION_ORDER.filter((action) => subscription.availableActions.includes(action));
  const inMenu = compact ? available.filter((action, place) => place > 0 || ACTIONS[action].confirmed) : [];
  const { id, path } = subscription;

  function choose(action: SubscriptionAction) {
    if (ACTIONS[action].confirmed) {
      transition.reset();
      setAsking({ action, lastEventId: subscription.lastEventId });
    } else {
      transition.mutate({ action, path, input: { subscriptionId: id } });
    }
  }
  function confirm({ action, lastEventId }: Question, reason: string | null) {
    const input = { subscriptionId: id, expectedLastEventId: lastEventId, reason };
    transition.mutate({ action, path, input }, { onSettled: () => setAsking(null) });
  }
  return (
    <Group gap={6} wrap={compact ? "nowrap" : "wrap"} justify={compact ? "flex-end" : "flex-start"}>
      {available
        .filter((action) => !inMenu.includes(action))
        .map((action) => (
          <PermittedButton
            key={action}
            capability={CHANGE_ONE}
            variant="default"
            size={compact ? "compact-xs" : "xs"}
            {...(ACTIONS[action].confirmed && { color: "red", variant: "outline" })}
            loading={
              transition.isPending &&
              transition.variables.input.subscriptionId === id &&
              transition.variables.action === action
            }
            onClick={() => choose(action)}
          >
            {ACTIONS[action].label}
          </PermittedButton>
        ))}
      {inMenu.length > 0 && <ActionMenu path={path} actions={inMenu} onChoose={choose} />}
      {asking && (
        <ConfirmDialog
          opened
          title={`${ACTIONS[asking.action].label} ${path}?`}
          action={ACTIONS[asking.action].label}
          dangerous
          busy={transition.isPending}
          onConfirm={(reason) => confirm(asking, reason)}
          onClose={() => setAsking(null)}
        >
          {ACTIONS[asking.action].effect}
        </ConfirmDialog>
      )}
    </Group>
  );
}

interface MenuProps {
  path: string;
  actions: readonly SubscriptionAction[];
  onChoose: (action: SubscriptionAction) => void;
}

function ActionMenu({ path, actions, onChoose }: MenuProps) {
  const permission = usePermission(CHANGE_ONE);
  return (
    <Menu position="bottom-end" shadow="md" width={permission.allowed ? "auto" : 260} withInitialFocusPlaceholder={false}>
      <Menu.Target>
        <ActionIcon variant="default" size={24} aria-label={`More actions on ${path}`}>
          <IconDots size={14} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {!permission.allowed && <Menu.Label>{permission.reason}</Menu.Label>}
        {actions.map((action) => (
          <Menu.Item
            key={action}
            disabled={!permission.allowed}
            {...(ACTIONS[action].confirmed && { c: "var(--noetl-bad)" })}
            onClick={() => onChoose(action)}
          >
            {ACTIONS[action].label}
            {ACTIONS[action].confirmed && "…"}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

/** The outcome of a registration: the new subscription, or the one that the path already had. */

import { Button, Group, Stack, Text } from "@mantine/core";

import { FieldList } from "../../ui/field_list";
import { IdLink } from "../../ui/id_link";
import { ObjectLink } from "../../ui/object_links";
import { PermittedButton } from "../../ui/permitted_button";
import { Time } from "../../ui/time";
import { ACTIONS, CHANGE_ONE } from "./actions";
import type { EntryToRegisterQuery, SubscriptionFieldsFragment } from "./operations.generated";
import { SubscriptionStatusBadge } from "./subscription_table";
import { TransitionResult } from "./transition_result";
import { useTransition } from "./use_transition";

interface Props {
  subscription: SubscriptionFieldsFragment;
  /** Last subscription of the path before the registration. */
  before: EntryToRegisterQuery["subscription"];
  onClose: () => void;
}

export function RegistrationOutcome({ subscription, before, onClose }: Props) {
  const transition = useTransition();
  const { id, path, updatedAt } = subscription;
  const activated = transition.data?.refusals.length === 0;
  return (
    <Stack gap="md">
      <Text fw={600} size="sm" role="status">
        {before?.id === id ? `${path} already had this subscription. Nothing was changed.` : `${path} is registered.`}
      </Text>
      <FieldList
        fields={[
          ["Subscription", <IdLink id={id} kind="subscription" />],
          ["State", activated ? null : <SubscriptionStatusBadge subscription={subscription} />],
          ["Since", activated ? null : <Time value={updatedAt} absolute />],
        ]}
      />
      <TransitionResult transition={transition} />
      <Group justify="flex-end" gap="xs">
        <Button variant="default" size="xs" onClick={onClose}>
          Close
        </Button>
        <Button size="xs" variant="default" renderRoot={(props) => <ObjectLink kind="subscription" id={id} {...props} />}>
          Open it
        </Button>
        {subscription.availableActions.includes("ACTIVATE") && !activated && (
          <PermittedButton
            capability={CHANGE_ONE}
            loading={transition.isPending}
            data-autofocus
            onClick={() => transition.mutate({ action: "ACTIVATE", path, input: { subscriptionId: id } })}
          >
            {ACTIONS.ACTIVATE.label}
          </PermittedButton>
        )}
      </Group>
    </Stack>
  );
}

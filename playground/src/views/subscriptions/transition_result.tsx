/** The result of the last action on one subscription, in words. */

import { Text } from "@mantine/core";

import { UserErrors } from "../../ui/confirm_dialog";
import { Failure } from "../../ui/states";
import type { TransitionState } from "./use_transition";

interface Props {
  transition: TransitionState;
  /** Status that the subscription has now, if it is known. The result is not shown any more once it is another one. */
  current?: string | undefined;
}

export function TransitionResult({ transition, current }: Props) {
  const { data, error, variables, reset } = transition;
  if (error) {
    return <Failure error={error} retry={reset} />;
  }
  if (data && data.refusals.length > 0) {
    return <UserErrors errors={data.refusals} />;
  }
  const isShown = data && (current === undefined || data.status === null || data.status === current);
  return (
    <Text size="sm" role="status" c="dimmed" hidden={!isShown}>
      {isShown && `${variables?.path} is ${data.status?.toLowerCase() ?? "changed"}.`}
    </Text>
  );
}

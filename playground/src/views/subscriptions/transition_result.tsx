/** The result of the last action on one subscription, in words. */

import { Text } from "@mantine/core";

import { UserErrors } from "../../ui/confirm_dialog";
import { Failure } from "../../ui/states";
import type { TransitionState } from "./use_transition";

export function TransitionResult({ transition }: { transition: TransitionState }) {
  const { data, error, variables, reset } = transition;
  if (error) {
    return <Failure error={error} retry={reset} />;
  }
  if (data && data.refusals.length > 0) {
    return <UserErrors errors={data.refusals} />;
  }
  return (
    <Text size="sm" role="status" c="dimmed" hidden={!data}>
      {data && `${variables?.path} is ${data.status?.toLowerCase() ?? "changed"}.`}
    </Text>
  );
}

/** Says that the delivery of a pending execution was discarded, by whom and why. Its reason is read only then. */

import { Alert, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

import { useApiQuery } from "../../api/hooks";
import { LongMessage } from "../../ui/long_message";
import { Failure } from "../../ui/states";
import { textOf } from "../../ui/text_of";
import { DiscardReasonDocument, type LogEventFragment } from "./operations.generated";

interface Props {
  /** Id of the execution. */
  id: string;
  /** Event about the discard. */
  discard: LogEventFragment;
}

export function DiscardReport({ id, discard }: Props) {
  const { data, error, isPlaceholderData, refetch } = useApiQuery(DiscardReasonDocument, { id, event: discard.eventId });
  const reason = isPlaceholderData ? null : textOf(data?.data.event?.context, "reason");
  const actor = textOf(discard.meta, "actor");
  return (
    <Alert
      color="yellow"
      variant="outline"
      icon={<IconAlertTriangle />}
      title={`The delivery was discarded${actor === null ? "" : ` by ${actor}`}`}
    >
      {reason !== null && (
        <Text size="sm" component="div">
          <LongMessage text={reason} name="reason" />
        </Text>
      )}
      {error && <Failure error={error} retry={refetch} />}
      <Text size="sm">No worker receives the message of this execution, so it stays pending. Cancel it, or run it again.</Text>
    </Alert>
  );
}

/** The chosen catalog entry, and whether its path is already registered. */

import { Alert, Text } from "@mantine/core";
import { useEffect } from "react";

import { useApiQuery } from "../../api/hooks";
import { FieldList } from "../../ui/field_list";
import { Failure, Loading } from "../../ui/states";
import { Time } from "../../ui/time";
import { EntryToRegisterDocument, type EntryToRegisterQuery } from "./operations.generated";

interface Props {
  path: string;
  onRead: (read: EntryToRegisterQuery) => void;
}

export function EntryToRegisterSummary({ path, onRead }: Props) {
  const { data, error, isPlaceholderData, refetch } = useApiQuery(EntryToRegisterDocument, { path });
  const read = data?.data;
  useEffect(() => {
    if (read && !isPlaceholderData) {
      onRead(read);
    }
  }, [read, isPlaceholderData, onRead]);
  if (!read) {
    return error ? <Failure error={error} retry={refetch} /> : <Loading lines={2} />;
  }
  const { catalogEntry: entry, subscription } = read;
  if (!entry || entry.kind !== "SUBSCRIPTION") {
    return <Alert color="red" variant="outline" title="This path has no catalog entry of kind subscription" role="alert" />;
  }
  const live = subscription && subscription.status !== "DEACTIVATED";
  return (
    <>
      <FieldList
        fields={[
          ["Path", entry.path],
          ["Version", String(entry.version)],
          ["Description", entry.description],
          ["Registered", <Time value={entry.createdAt} absolute />],
        ]}
      />
      <Text size="sm">
        {live
          ? `The path has a subscription, which is ${subscription.status.toLowerCase()}. Registering returns it and changes nothing.`
          : "Registering creates a subscription. It receives messages after it is activated."}
      </Text>
    </>
  );
}

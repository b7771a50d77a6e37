/** The registrations of the subscription's path, newest first. Nothing is drawn for a path that was registered once. */

import { Text } from "@mantine/core";

import { useApiPages } from "../../api/hooks";
import { DataTable, type Column } from "../../ui/data_table";
import { IdLink } from "../../ui/id_link";
import { Panel } from "../../ui/panel";
import { Failure, PartialData } from "../../ui/states";
import { Time } from "../../ui/time";
import { SubscriptionStatusBadge } from "../subscriptions/subscription_table";
import { SubscriptionRegistrationsDocument, type SubscriptionRegistrationsQuery } from "./operations.generated";

type Registration = NonNullable<SubscriptionRegistrationsQuery["subscriptions"]>["nodes"][number];

export function RegistrationsPanel({ id, path }: { id: string; path: string }) {
  const list = useApiPages(SubscriptionRegistrationsDocument, { path }, (data) => data.subscriptions);
  const { error, refetch, hasNextPage } = list.query;
  // The server selects by the beginning of the path.
  const registrations = list.nodes.filter((registration) => registration.path === path);
  if (!error && registrations.length < 2 && !hasNextPage) {
    return null;
  }
  return (
    <Panel title="Registrations of the path">
      {error && <Failure error={error} retry={refetch} />}
      <PartialData unavailableShards={list.unavailableShards} errors={list.errors} />
      <DataTable
        label="Registrations of the path"
        columns={columnsOf(id)}
        rows={registrations}
        rowKey={(registration) => registration.id}
        pages={list.query}
      />
    </Panel>
  );
}

function columnsOf(shown: string): readonly Column<Registration>[] {
  return [
    { title: "Registered", cell: ({ registeredAt }) => <Time value={registeredAt} /> },
    { title: "State", cell: (registration) => <SubscriptionStatusBadge subscription={registration} /> },
    { title: "In this state since", cell: ({ updatedAt }) => <Time value={updatedAt} /> },
    { title: "Subscription", cell: ({ id }) => (id === shown ? <Text size="sm">This one</Text> : <IdLink id={id} kind="subscription" />) },
  ];
}

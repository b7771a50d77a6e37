/** The replicas of the deployment, with the feeds that each publishes. */

import type { SystemStatus } from "../../api/system_status";
import { DataTable, type Column } from "../../ui/data_table";
import { Empty } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { Time } from "../../ui/time";
import type { ServerQuery } from "./operations.generated";

type Replica = NonNullable<ServerQuery["replicas"]>[number];

interface Row extends Replica {
  leads: readonly number[];
  connected: boolean;
}

const COLUMNS: readonly Column<Row>[] = [
  {
    title: "Replica",
    cell: ({ replica, connected }) => (
      <>
        {replica ?? "Not named"} {connected && <StatusBadge status="THIS_PAGE" label="This page" tone="plain" />}
      </>
    ),
  },
  { title: "Machine id", align: "right", cell: ({ machineId }) => machineId },
  { title: "Version", cell: ({ version }) => version ?? "–" },
  { title: "Started", cell: ({ startedAt }) => (startedAt === null ? "–" : <Time value={startedAt} />) },
  { title: "Lease expires", cell: ({ leaseExpiresAt }) => <Time value={leaseExpiresAt} /> },
  { title: "Leads the feeds of shards", cell: ({ leads }) => (leads.length > 0 ? leads.join(", ") : "None") },
];

interface Props {
  replicas: readonly Replica[];
  status: SystemStatus | null;
  /** Name of the replica of this page. */
  connected: string | null;
}

export function Replicas({ replicas, status, connected }: Props) {
  const feeds = status?.eventStream.shards ?? [];
  const rows = replicas.map((replica) => ({
    ...replica,
    leads: replica.replica === null ? [] : feeds.filter((feed) => feed.leader === replica.replica).map((feed) => feed.shard),
    connected: connected !== null && replica.replica === connected,
  }));
  return (
    <DataTable
      label="Replicas"
      columns={COLUMNS}
      rows={rows}
      rowKey={(row) => row.machineId}
      empty={<Empty title="No replica holds a machine id">The leases of all replicas have expired.</Empty>}
    />
  );
}

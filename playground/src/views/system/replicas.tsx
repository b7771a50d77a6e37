/** The replicas that the API names: that of this page, and those that hold the lease of a feed. */

import type { SystemStatus } from "../../api/system_status";
import { DataTable, type Column } from "../../ui/data_table";
import { Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";

interface Row {
  replica: string;
  leads: readonly number[];
  connected: boolean;
}

const COLUMNS: readonly Column<Row>[] = [
  { title: "Replica", cell: ({ replica }) => replica },
  { title: "Leads the feeds of shards", cell: ({ leads }) => (leads.length > 0 ? leads.join(", ") : "None") },
  { title: "This page", cell: ({ connected }) => (connected ? "Connected" : "–") },
];

interface Props {
  status: SystemStatus;
  /** Replica of this page. */
  connected: string | null;
}

export function Replicas({ status, connected }: Props) {
  const leaders = status.eventStream.shards.map((shard) => shard.leader).filter((leader) => leader !== null);
  const names = [...new Set([...(connected === null ? [] : [connected]), ...leaders])];
  const rows = names.map((replica) => ({
    replica,
    leads: status.eventStream.shards.filter((shard) => shard.leader === replica).map((shard) => shard.shard),
    connected: replica === connected,
  }));
  return (
    <Panel title="Replicas that publish events">
      <DataTable
        label="Replicas"
        columns={COLUMNS}
        rows={rows}
        rowKey={(row) => row.replica}
        empty={<Empty title="No replica publishes events">Start a replica with a broker, or wait until a lease expires.</Empty>}
      />
    </Panel>
  );
}

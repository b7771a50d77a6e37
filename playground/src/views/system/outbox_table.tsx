/** The outbox of each shard: numbers of entries by state, and the age of the oldest claimable entry. */

import type { SystemStatus } from "../../api/system_status";
import { DataTable, type Column } from "../../ui/data_table";
import { formatNumber } from "../../ui/format";
import { Empty, PartialData } from "../../ui/states";
import { Duration } from "../../ui/time";

type Outbox = NonNullable<SystemStatus["outbox"]>;

const COLUMNS: readonly Column<Outbox["byShard"][number]>[] = [
  { title: "Shard", cell: ({ shard }) => shard },
  { title: "Claimable", align: "right", cell: ({ pending }) => formatNumber(pending) },
  { title: "In flight", align: "right", cell: ({ inFlight }) => formatNumber(inFlight) },
  { title: "Failed", align: "right", cell: ({ failed }) => formatNumber(failed) },
  { title: "Dead", align: "right", cell: ({ dead }) => formatNumber(dead) },
  { title: "Oldest claimable", align: "right", cell: ({ oldestPendingAgeSeconds: age }) => <Duration seconds={age} /> },
];

export function OutboxTable({ status: { outbox } }: { status: SystemStatus }) {
  if (!outbox) {
    return <Empty title="The outbox could not be counted">Check the databases of the shards. The count is repeated.</Empty>;
  }
  return (
    <>
      <PartialData unavailableShards={outbox.unavailableShards} />
      <DataTable label="Outbox by shard" columns={COLUMNS} rows={outbox.byShard} rowKey={(row) => row.shard} />
    </>
  );
}

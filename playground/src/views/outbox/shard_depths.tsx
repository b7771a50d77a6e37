/** Depth, age and failures of the outbox on each shard, live. */

import type { SystemStatus } from "../../api/system_status";
import { DataTable, type Column } from "../../ui/data_table";
import { formatNumber } from "../../ui/format";
import { Duration } from "../../ui/time";

type Row = NonNullable<SystemStatus["outbox"]>["byShard"][number];

const COLUMNS: readonly Column<Row>[] = [
  { title: "Shard", cell: (row) => row.shard },
  { title: "Depth", align: "right", cell: (row) => formatNumber(row.pending) },
  { title: "Oldest", align: "right", cell: (row) => <Duration seconds={row.oldestPendingAgeSeconds} /> },
  { title: "In flight", align: "right", cell: (row) => formatNumber(row.inFlight) },
  { title: "Failed", align: "right", cell: (row) => formatNumber(row.failed) },
  { title: "Dead", align: "right", cell: (row) => formatNumber(row.dead) },
];

export function ShardDepths({ rows }: { rows: readonly Row[] }) {
  return <DataTable label="Outbox by shard" columns={COLUMNS} rows={rows} rowKey={(row) => row.shard} />;
}

/** The database of each shard: health, round trip, connections of this replica, and its part of the buckets. */

import { Text } from "@mantine/core";

import type { SystemStatus } from "../../api/system_status";
import { DataTable, type Column } from "../../ui/data_table";
import { formatLatency, formatNumber } from "../../ui/format";
import { StatusBadge } from "../../ui/status_badge";
import classes from "./tables.module.css";

type Shard = SystemStatus["shards"][number];

const BUCKETS = 5_040;

const COLUMNS: readonly Column<Shard>[] = [
  { title: "Shard", cell: ({ shard }) => shard },
  {
    title: "Database",
    cell: ({ available }) =>
      available ? <StatusBadge status="AVAILABLE" tone="good" /> : <StatusBadge status="UNREACHABLE" tone="bad" />,
  },
  {
    title: "Round trip",
    align: "right",
    cell: ({ available, latencyMilliseconds: latency }) => (available && latency !== null ? formatLatency(latency) : "–"),
  },
  { title: "Busy connections", align: "right", cell: ({ poolSize, poolIdle }) => `${poolSize - poolIdle} of ${poolSize}` },
  {
    title: "Buckets",
    align: "right",
    cell: ({ buckets }) => `${formatNumber(buckets)} (${((buckets / BUCKETS) * 100).toFixed(1)} %)`,
  },
  {
    title: "Error",
    cell: ({ error }) =>
      error === null ? (
        "None"
      ) : (
        <Text size="sm" className={classes.error!}>
          {error}
        </Text>
      ),
  },
];

export function ShardTable({ status }: { status: SystemStatus }) {
  return <DataTable label="Shards" columns={COLUMNS} rows={status.shards} rowKey={(row) => row.shard} />;
}

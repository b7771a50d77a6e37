/** Each shard: its database, its event feed and its outbox. */

import type { SystemStatus } from "../../api/system_status";
import { DataTable, type Column } from "../../ui/data_table";
import { formatLatency, formatNumber } from "../../ui/format";
import { StatusBadge } from "../../ui/status_badge";
import { Duration } from "../../ui/time";

interface Row {
  database: SystemStatus["shards"][number];
  feed: SystemStatus["eventStream"]["shards"][number] | undefined;
  outbox: NonNullable<SystemStatus["outbox"]>["byShard"][number] | undefined;
}

const COLUMNS: readonly Column<Row>[] = [
  { title: "Shard", cell: ({ database }) => database.shard },
  {
    title: "Database",
    cell: ({ database }) =>
      database.available ? (
        <StatusBadge status="AVAILABLE" tone="good" />
      ) : (
        <StatusBadge status="UNREACHABLE" tone="bad" />
      ),
  },
  {
    title: "Round trip",
    align: "right",
    cell: ({ database: { available, latencyMilliseconds: latency } }) =>
      available && latency !== null ? formatLatency(latency) : "–",
  },
  {
    title: "Connections",
    align: "right",
    cell: ({ database }) => `${database.poolSize - database.poolIdle} of ${database.poolSize} busy`,
  },
  { title: "Feed leader", cell: ({ feed }) => feed?.leader ?? "None" },
  { title: "Lag", align: "right", cell: ({ feed }) => <Duration seconds={feed?.lagSeconds || null} /> },
  {
    title: "Oldest transaction",
    align: "right",
    cell: ({ feed }) => <Duration seconds={feed?.oldestOpenTransactionSeconds ?? null} />,
  },
  { title: "Published", align: "right", cell: ({ feed }) => (feed ? formatNumber(feed.publishedEvents) : "–") },
  { title: "Outbox", align: "right", cell: ({ outbox }) => (outbox ? formatNumber(outbox.pending) : "–") },
];

export function ShardTable({ status }: { status: SystemStatus }) {
  const rows = status.shards.map((database) => ({
    database,
    feed: status.eventStream.shards.find((feed) => feed.shard === database.shard),
    outbox: status.outbox?.byShard.find((outbox) => outbox.shard === database.shard),
  }));
  return <DataTable label="Shards" columns={COLUMNS} rows={rows} rowKey={(row) => row.database.shard} />;
}

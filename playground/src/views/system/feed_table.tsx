/** The event feed of each shard: the replica that publishes it, its lease, its epoch, its positions and its lag. */

import { Text } from "@mantine/core";

import type { SystemStatus } from "../../api/system_status";
import { DataTable, type Column } from "../../ui/data_table";
import { formatDuration, formatItems, formatNumber } from "../../ui/format";
import { Empty } from "../../ui/states";
import { Time } from "../../ui/time";
import classes from "./tables.module.css";

type Feed = SystemStatus["eventStream"]["shards"][number];

const COLUMNS: readonly Column<Feed>[] = [
  { title: "Shard", cell: ({ shard }) => shard },
  { title: "Stream", cell: ({ stream }) => stream },
  { title: "Leader", cell: ({ leader }) => leader ?? "None" },
  { title: "Lease expires", cell: ({ leaseExpiresAt }) => <Time value={leaseExpiresAt} /> },
  { title: "Epoch", align: "right", cell: ({ feedEpoch }) => feedEpoch },
  {
    title: "Lag",
    align: "right",
    cell: ({ lagSeconds, lagEvents }) =>
      lagEvents === "0" ? "None" : `${formatDuration(lagSeconds)}, ${formatItems(lagEvents, "event")}`,
  },
  { title: "Published", align: "right", cell: ({ publishedEvents }) => formatNumber(publishedEvents) },
  { title: "Last position", align: "right", cell: ({ lastSequence }) => formatNumber(lastSequence) },
  { title: "Open transactions", cell: (feed) => transactionsOf(feed) },
  {
    title: "Last error",
    cell: ({ lastError }) =>
      lastError === null ? (
        "None"
      ) : (
        <Text size="sm" className={classes.error!}>
          {lastError}
        </Text>
      ),
  },
];

/** Returns the transactions that hold back the feed, in words. */
function transactionsOf({ oldestOpenTransactionSeconds: open, oldestPreparedTransactionSeconds: prepared, preparedTransactions }: Feed) {
  const texts = [
    open !== null && `oldest ${formatDuration(open)}`,
    prepared !== null && `${formatNumber(preparedTransactions)} prepared, oldest ${formatDuration(prepared)}`,
  ].filter((text) => text !== false);
  return texts.length > 0 ? texts.join("; ") : "None";
}

export function FeedTable({ status: { eventStream } }: { status: SystemStatus }) {
  return (
    <DataTable
      label="Event feeds"
      columns={COLUMNS}
      rows={eventStream.shards}
      rowKey={(row) => row.shard}
      empty={<Empty title="The server runs without a broker">Set the broker's address to publish events.</Empty>}
    />
  );
}

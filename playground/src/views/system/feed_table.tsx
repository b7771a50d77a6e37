/** The event feed of each shard: the replica that publishes it, its lease, its epoch, its positions and its lag. */

import { Text } from "@mantine/core";

import type { SystemStatus } from "../../api/system_status";
import { DataTable, type Column } from "../../ui/data_table";
import { formatNumber } from "../../ui/format";
import { Empty } from "../../ui/states";
import { Duration, Time } from "../../ui/time";
import classes from "./tables.module.css";

type Feed = SystemStatus["eventStream"]["shards"][number];

const COLUMNS: readonly Column<Feed>[] = [
  { title: "Shard", cell: ({ shard }) => shard },
  { title: "Stream", cell: ({ stream }) => stream },
  { title: "Leader", cell: ({ leader }) => leader ?? "None" },
  { title: "Lease expires", cell: ({ leaseExpiresAt }) => <Time value={leaseExpiresAt} /> },
  { title: "Epoch", align: "right", cell: ({ feedEpoch }) => feedEpoch },
  { title: "Lag", align: "right", cell: ({ lagSeconds }) => <Duration seconds={lagSeconds || null} /> },
  { title: "Unpublished", align: "right", cell: ({ lagEvents }) => formatNumber(lagEvents) },
  { title: "Published", align: "right", cell: ({ publishedEvents }) => formatNumber(publishedEvents) },
  { title: "Last position", align: "right", cell: ({ lastSequence }) => formatNumber(lastSequence) },
  {
    title: "Oldest transaction",
    align: "right",
    cell: ({ oldestOpenTransactionSeconds: age }) => <Duration seconds={age} />,
  },
  {
    title: "Prepared transactions",
    align: "right",
    cell: ({ preparedTransactions, oldestPreparedTransactionSeconds: age }) =>
      age === null ? (
        formatNumber(preparedTransactions)
      ) : (
        <>
          {formatNumber(preparedTransactions)}, oldest <Duration seconds={age} />
        </>
      ),
  },
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

/**
 * Entries that are not delivered, by subject. The API counts entries only by shard, so the page counts the newest 100
 * entries, and says so if there are more. The state of the outbox above it names the shards that can't be read.
 */

import { Text } from "@mantine/core";

import { useApiQuery } from "../../api/hooks";
import { DataTable, type Column } from "../../ui/data_table";
import { formatNumber } from "../../ui/format";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { Time } from "../../ui/time";
import { UndeliveredEntriesDocument, type UndeliveredEntriesQuery } from "./operations.generated";

type Entry = NonNullable<NonNullable<UndeliveredEntriesQuery["outbox"]>["entries"]>["nodes"][number];

interface Row {
  subject: string;
  waiting: number;
  failed: number;
  dead: number;
  oldest: string;
}

const EVERY_MS = 5_000;
const NO_SUBJECT = "The event's subject";

const COLUMNS: readonly Column<Row>[] = [
  { title: "Subject", cell: (row) => row.subject },
  { title: "Waiting", align: "right", cell: (row) => formatNumber(row.waiting) },
  { title: "Failed", align: "right", cell: (row) => formatNumber(row.failed) },
  { title: "Dead", align: "right", cell: (row) => formatNumber(row.dead) },
  { title: "Oldest", align: "right", cell: (row) => <Time value={row.oldest} /> },
];

export function SubjectDepths() {
  const { data, error, refetch } = useApiQuery(UndeliveredEntriesDocument, {}, { every: EVERY_MS });
  const list = data?.data.outbox?.entries;
  return (
    <>
      {error && <Failure error={error} retry={refetch} />}
      {!data && !error && <Loading lines={2} />}
      <PartialData errors={data?.errors ?? []} />
      {list && (
        <DataTable
          label="Outbox by subject"
          columns={COLUMNS}
          rows={bySubject(list.nodes)}
          rowKey={(row) => row.subject}
          empty={<Empty title="No entry waits for delivery" />}
        />
      )}
      {list?.pageInfo.hasNextPage && (
        <Text size="xs" c="dimmed" mt="xs">
          Only the newest {list.nodes.length} entries are counted here. The numbers by shard have all of them.
        </Text>
      )}
    </>
  );
}

/** Counts entries by subject, without the part of the subject that names the execution. Entries are newest first. */
function bySubject(entries: readonly Entry[]): Row[] {
  const rows = new Map<string, Row>();
  for (const { subject, status, createdAt } of entries) {
    const name = subject?.replace(/\.\d+(?=\.|$)/g, ".*") ?? NO_SUBJECT;
    const row = rows.get(name) ?? { subject: name, waiting: 0, failed: 0, dead: 0, oldest: createdAt };
    row.waiting += Number(status === "PENDING" || status === "IN_FLIGHT");
    row.failed += Number(status === "FAILED");
    row.dead += Number(status === "DEAD");
    row.oldest = createdAt;
    rows.set(name, row);
  }
  return [...rows.values()];
}

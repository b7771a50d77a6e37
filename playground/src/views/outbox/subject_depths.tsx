/** Depth, age and failures of the outbox by subject. The server counts the entries by the form of their subject. */

import { useApiQuery } from "../../api/hooks";
import { DataTable, type Column } from "../../ui/data_table";
import { formatNumber } from "../../ui/format";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { Duration } from "../../ui/time";
import { OutboxSubjectsDocument, type OutboxSubjectsQuery } from "./operations.generated";

type Row = NonNullable<NonNullable<OutboxSubjectsQuery["outbox"]>["subjects"]>[number];

const EVERY_MS = 5_000;
const NO_SUBJECT = "The event's subject";

const COLUMNS: readonly Column<Row>[] = [
  { title: "Subject", cell: (row) => row.subject ?? NO_SUBJECT },
  { title: "Depth", align: "right", cell: (row) => formatNumber(row.pending) },
  { title: "Oldest", align: "right", cell: (row) => <Duration seconds={row.oldestPendingAgeSeconds} /> },
  { title: "In flight", align: "right", cell: (row) => formatNumber(row.inFlight) },
  { title: "Failed", align: "right", cell: (row) => formatNumber(row.failed) },
  { title: "Dead", align: "right", cell: (row) => formatNumber(row.dead) },
];

export function SubjectDepths() {
  const { data, error, refetch } = useApiQuery(OutboxSubjectsDocument, {}, { every: EVERY_MS });
  const subjects = data?.data.outbox?.subjects;
  return (
    <>
      {error && <Failure error={error} retry={refetch} />}
      {!data && !error && <Loading lines={2} />}
      {data && <PartialData errors={data.errors} />}
      {subjects && (
        <DataTable
          label="Outbox by subject"
          columns={COLUMNS}
          rows={subjects}
          rowKey={(row) => row.subject ?? NO_SUBJECT}
          empty={<Empty title="No entry waits for delivery" />}
        />
      )}
    </>
  );
}

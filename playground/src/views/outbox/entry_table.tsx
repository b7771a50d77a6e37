/** The entries of the outbox, newest first, read every three seconds. */

import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { DataTable, type Column, type Pages } from "../../ui/data_table";
import { IdLink } from "../../ui/id_link";
import { Empty } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { Time } from "../../ui/time";
import { EntryActions } from "./entry_actions";
import type { OutboxEntryFieldsFragment } from "./operations.generated";
import classes from "./entry_table.module.css";

const COLUMNS: readonly Column<OutboxEntryFieldsFragment>[] = [
  { title: "Entry", cell: (entry) => <EntryLink entry={entry} /> },
  { title: "Status", cell: (entry) => <EntryStatus entry={entry} /> },
  { title: "Subject", cell: ({ subject }) => <Subject subject={subject} /> },
  { title: "Execution", cell: ({ executionId }) => (executionId === null ? "–" : <IdLink id={executionId} kind="execution" />) },
  { title: "Claims", align: "right", cell: ({ attempts }) => attempts },
  { title: "Written", cell: ({ createdAt }) => <Time value={createdAt} /> },
];
const ERROR: Column<OutboxEntryFieldsFragment> = {
  title: "Last error",
  cell: ({ lastError }) =>
    lastError !== null && (
      <Text size="sm" className={classes.error!} title={lastError}>
        {lastError}
      </Text>
    ),
};
const ACTIONS: Column<OutboxEntryFieldsFragment> = {
  title: "Actions",
  align: "right",
  cell: (entry) => <EntryActions entry={entry} size="compact-xs" />,
};

/** Columns of the list as a file. */
export const EXPORTED: readonly string[] = [
  "entryId",
  "status",
  "statusText",
  "subject",
  "executionId",
  "attempts",
  "createdAt",
  "availableAt",
  "publishedAt",
  "leaseExpiresAt",
  "lastError",
];

interface Props {
  entries: readonly OutboxEntryFieldsFragment[];
  filtered: boolean;
  pages: Pages;
}

export function EntryTable({ entries, filtered, pages }: Props) {
  const failed = entries.some(({ lastError }) => lastError !== null);
  const settleable = entries.some(({ status }) => status === "DEAD" || status === "FAILED");
  return (
    <DataTable
      label="Outbox entries"
      columns={[...COLUMNS, ...(failed ? [ERROR] : []), ...(settleable ? [ACTIONS] : [])]}
      rows={entries}
      rowKey={(entry) => entry.id}
      empty={
        <Empty title={filtered ? "No entry matches the filter" : "The outbox is empty"}>
          {filtered
            ? "Change the filter or clear it. Delivered entries are deleted after some time."
            : "Each started execution writes an entry here. Delivered entries are deleted after some time."}
        </Empty>
      }
      pages={pages}
      endless
    />
  );
}

function EntryLink({ entry }: { entry: OutboxEntryFieldsFragment }) {
  return (
    <Link
      to="/outbox"
      search={(before) => ({ ...before, entry: entry.id })}
      resetScroll={false}
      className={classes.entry!}
      aria-label={`Entry ${entry.entryId}`}
    >
      {entry.entryId}
    </Link>
  );
}

export function EntryStatus({ entry: { status, statusText } }: { entry: Pick<OutboxEntryFieldsFragment, "status" | "statusText"> }) {
  return <StatusBadge status={status} {...(status === "UNKNOWN" && { label: `Unknown (${statusText})` })} />;
}

/** A subject without its digits at the end, which are the id of the execution. */
function Subject({ subject }: { subject: string | null }) {
  return subject === null ? "–" : <span title={subject}>{subject.replace(/\.\d+$/, ".…")}</span>;
}

/** The errors of two runs side by side. Equal ones are marked. */

import { Text } from "@mantine/core";

import { DataTable, type Column } from "../../ui/data_table";
import { LongMessage } from "../../ui/long_message";
import { StatusBadge } from "../../ui/status_badge";
import { errorPairs, type ErrorPair, type Outcome, type Run } from "./error_pairs";
import classes from "./compare.module.css";

const COLUMNS: readonly Column<ErrorPair>[] = [
  { title: "Step", cell: ({ name }) => name },
  { title: "This run", cell: ({ name, left }) => <ErrorText outcome={left} name={`error of ${name} in this run`} /> },
  { title: "Other run", cell: ({ name, right }) => <ErrorText outcome={right} name={`error of ${name} in the other run`} /> },
  {
    title: "Comparison",
    cell: ({ comparison }) => <StatusBadge status={comparison} label={comparison} tone={comparison === "Equal" ? "plain" : "mixed"} />,
  },
];

export function CompareErrors({ left, right }: { left: Run; right: Run }) {
  return (
    <DataTable
      label="Errors of both runs"
      columns={COLUMNS}
      rows={errorPairs(left, right)}
      rowKey={({ name }) => name}
      empty={
        <Text size="sm" c="dimmed">
          Neither run has an error.
        </Text>
      }
    />
  );
}

function ErrorText({ outcome: { failed, error, words }, name }: { outcome: Outcome; name: string }) {
  if (error === null) {
    return <span className={failed ? undefined : classes.missing}>{words}</span>;
  }
  return (
    <div className={classes.error}>
      <LongMessage text={error} name={name} />
    </div>
  );
}

/** The errors of two runs side by side. Equal ones are marked. Missing steps are named, because they may have errors. */

import { Text } from "@mantine/core";

import { DataTable, type Column } from "../../ui/data_table";
import { LongMessage } from "../../ui/long_message";
import { StatusBadge } from "../../ui/status_badge";
import type { Tone } from "../../ui/tone";
import { errorPairs, lacksSteps, type Comparison, type ErrorPair, type Outcome, type Run } from "./error_pairs";
import classes from "./compare.module.css";

const TONES: Record<Comparison, Tone> = {
  Equal: "plain",
  Different: "mixed",
  "Only this run": "mixed",
  "Only the other run": "mixed",
  "Not known": "plain",
};

const COLUMNS: readonly Column<ErrorPair>[] = [
  { title: "Step", cell: ({ name }) => name },
  { title: "This run", cell: ({ name, left }) => <ErrorText outcome={left} name={`error of ${name} in this run`} /> },
  { title: "Other run", cell: ({ name, right }) => <ErrorText outcome={right} name={`error of ${name} in the other run`} /> },
  {
    title: "Comparison",
    cell: ({ comparison }) => <StatusBadge status={comparison} label={comparison} tone={TONES[comparison]} />,
  },
];

export function CompareErrors({ left, right }: { left: Run; right: Run }) {
  const missing = [...(lacksSteps(left) ? ["this run"] : []), ...(lacksSteps(right) ? ["the other run"] : [])];
  return (
    <>
      {missing.length > 0 && (
        <Text size="sm" role="status">
          Steps of {missing.join(" and of ")} are missing here. They may have errors too.
        </Text>
      )}
      <DataTable
        label="Errors of both runs"
        columns={COLUMNS}
        rows={errorPairs(left, right)}
        rowKey={({ key }) => key}
        empty={
          <Text size="sm" c="dimmed">
            {missing.length > 0 ? "The known steps have no errors." : "Neither run has an error."}
          </Text>
        }
      />
    </>
  );
}

function ErrorText({ outcome: { failed, error, iterations, words }, name }: { outcome: Outcome; name: string }) {
  if (error === null) {
    return <span className={failed ? undefined : classes.missing}>{words}</span>;
  }
  return (
    <div className={classes.error}>
      <LongMessage text={error} name={name} />
      {iterations !== null && <Text size="sm">{iterations}</Text>}
    </div>
  );
}

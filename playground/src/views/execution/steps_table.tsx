/** The steps with status, attempts, times and errors. It is also the text alternative of the diagram. */

import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { DataTable, type Column } from "../../ui/data_table";
import { formatNumber } from "../../ui/format";
import { LongMessage } from "../../ui/long_message";
import { LongText } from "../../ui/long_text";
import { RunDuration } from "../../ui/run_duration";
import { Empty } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { Time } from "../../ui/time";
import { MAX_STEPS } from "./all_steps";
import type { StepState } from "./live_execution";
import { stepInWords, toneOfStep } from "./step_words";
import classes from "./steps_table.module.css";

const columns = (moment: string | undefined): readonly Column<StepState>[] => [
  { title: "Step", cell: ({ name }) => <StepLink name={name} /> },
  { title: "Status", cell: (step) => <StatusBadge status={step.status} label={stepInWords(step)} tone={toneOfStep(step)} /> },
  { title: "Entered", cell: ({ enteredAt, completedAt }) => <Time value={enteredAt} running={completedAt === null} /> },
  { title: "Duration", align: "right", cell: (step) => <RunDuration from={step.enteredAt} to={step.completedAt} moment={moment} /> },
  { title: "Error", cell: ({ error }) => error !== null && <ErrorOf error={error} /> },
];

/** Number of rows that are added at a time: a long table is slow. */
const PAGE = 100;

interface Props {
  steps: readonly StepState[];
  /** Whether the execution has more steps than are listed. */
  more: boolean;
  /** Time of the moment that is shown; undefined: the newest state. */
  moment: string | undefined;
}

export function StepsTable({ steps, more, moment }: Props) {
  const [length, setLength] = useState(PAGE);
  const rest = steps.length - length;
  const pages = { hasNextPage: rest > 0, isFetchingNextPage: false, fetchNextPage: () => setLength(length + PAGE) };
  return (
    <>
      <DataTable
        label="Steps"
        columns={columns(moment)}
        rows={steps.slice(0, length)}
        rowKey={(step) => step.name}
        empty={<Empty title="No step has begun">Steps appear here when a worker begins them.</Empty>}
        {...(steps.length > PAGE && { pages })}
      />
      {more && (
        <p className={classes.more} role="status">
          {steps.length < MAX_STEPS
            ? "The following steps are being read."
            : `The execution has more steps. The page shows the first ${formatNumber(steps.length)}; the events have all of them.`}
        </p>
      )}
    </>
  );
}

/** The error of a row. */
export function ErrorOf({ error }: { error: string }) {
  return (
    <span className={classes.error}>
      <LongMessage text={error} name="error" />
    </span>
  );
}

function StepLink({ name }: { name: string }) {
  return (
    <LongText
      text={name}
      name="step"
      link={(shown) => (
        <Link
          from="/executions/$id"
          to="."
          search={(before) => ({ ...before, step: before.step === name ? undefined : name })}
          resetScroll={false}
          replace
          className={classes.step}
          aria-label={name}
        >
          {shown}
        </Link>
      )}
    />
  );
}

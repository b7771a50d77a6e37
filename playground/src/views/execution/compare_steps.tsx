/** The steps of two runs side by side, with statuses, durations and failures. */

import { DataTable, type Column } from "../../ui/data_table";
import { ObjectLink } from "../../ui/object_links";
import { StatusBadge } from "../../ui/status_badge";
import { Duration } from "../../ui/time";
import type { Tone } from "../../ui/tone";
import { absenceInWords } from "./error_pairs";
import type { Execution, StepState } from "./live_execution";
import { stepInWords, toneOfStep } from "./step_words";
import { differenceInWords, type Outcome } from "./time_difference";
import classes from "./compare.module.css";

interface Row {
  name: string;
  left: Side;
  right: Side;
}

interface Side {
  /** Id of the run, for the row of the whole run. */
  run: string | null;
  /** The state, or words for a step that the run does not name. */
  state: { status: string; label: string; tone?: Tone } | string;
  seconds: number | null;
}

const COLUMNS: readonly Column<Row>[] = [
  { title: "Step", cell: ({ name }) => name },
  { title: "This run", cell: ({ left }) => <State side={left} /> },
  { title: "This duration", align: "right", cell: ({ left }) => <Duration seconds={left.seconds} /> },
  { title: "Other run", cell: ({ right }) => <State side={right} /> },
  { title: "Other duration", align: "right", cell: ({ right }) => <Duration seconds={right.seconds} /> },
  { title: "Difference", align: "right", cell: (row) => <Difference row={row} /> },
];

export function CompareSteps({ left, right }: { left: Execution; right: Execution }) {
  const [ours, theirs] = [stepsOf(left), stepsOf(right)];
  const names = [...new Set([...ours.keys(), ...theirs.keys()])];
  const rows = names.map((name) => ({ name, left: sideOf(ours.get(name), left), right: sideOf(theirs.get(name), right) }));
  const whole = { name: "Whole run", left: wholeOf(left), right: wholeOf(right) };
  return <DataTable label="Steps of both runs" columns={COLUMNS} rows={[whole, ...rows]} rowKey={keyOf} />;
}

/** A step can have the name of the row of the whole run. */
function keyOf({ name, left }: Row): string {
  return left.run === null ? `step ${name}` : "run";
}

function stepsOf(execution: Execution): Map<string, StepState> {
  return new Map((execution.steps?.nodes ?? []).map((step) => [step.name, step]));
}

function sideOf(step: StepState | undefined, execution: Execution): Side {
  const state = step ? { status: step.status, label: stepInWords(step), tone: toneOfStep(step) } : absenceInWords(execution);
  return { run: null, state, seconds: step ? secondsBetween(step.enteredAt, step.completedAt) : null };
}

function wholeOf({ id, status, startedAt, endedAt }: Execution): Side {
  return { run: id, state: { status, label: id }, seconds: secondsBetween(startedAt, endedAt) };
}

function secondsBetween(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from)) / 1_000;
}

function State({ side: { run, state } }: { side: Side }) {
  if (typeof state === "string") {
    return <span className={classes.missing}>{state}</span>;
  }
  return run === null ? (
    <StatusBadge {...state} />
  ) : (
    <>
      <StatusBadge status={state.status} />{" "}
      <ObjectLink kind="execution" id={run} className={classes.run}>
        {run}
      </ObjectLink>
    </>
  );
}

function Difference({ row: { left, right } }: { row: Row }) {
  const words = differenceInWords(outcomeOf(left), outcomeOf(right));
  return words === null ? <Duration seconds={null} /> : <span className={classes.difference}>{words}</span>;
}

function outcomeOf({ state, seconds }: Side): Outcome {
  return { status: typeof state === "string" ? null : state.status, seconds };
}

/** Columns of the list of executions. */

import type { ExecutionOrder } from "../../api/schema.generated";
import type { Column } from "../../ui/data_table";
import { ExecutionStatus } from "../../ui/execution_status";
import { IdLink } from "../../ui/id_link";
import { LabelChips } from "../../ui/label_chips";
import { LongText } from "../../ui/long_text";
import { ObjectLink, objectOf } from "../../ui/object_links";
import { RunDuration } from "../../ui/run_duration";
import { Time } from "../../ui/time";
import { toneOf } from "../../ui/tone";
import type { ExecutionRowFragment } from "./operations.generated";
import { ProgressBar } from "./progress_bar";
import classes from "./columns.module.css";

type Row = ExecutionRowFragment;

const MAX_LABELS = 3;

const COLUMNS: readonly Column<Row>[] = [
  { title: "Execution", cell: (row) => <Name row={row} /> },
  { title: "Started", cell: ({ startedAt, endedAt }) => <Time value={startedAt} running={endedAt === null} /> },
  { title: "Duration", align: "right", cell: (row) => <RunDuration from={row.startedAt} to={row.endedAt} /> },
  { title: "Steps", cell: ({ progress, status }) => progress && <ProgressBar {...progress} status={status} /> },
  {
    title: "Error",
    cell: ({ error, status }) =>
      error !== null && (
        <span className={classes.error} data-tone={toneOf(status)} title={error}>
          {error}
        </span>
      ),
  },
  { title: "Parent", cell: (row) => <Parent row={row} /> },
];

const ENDED: Column<Row> = { title: "Ended", cell: ({ endedAt }) => <Time value={endedAt} /> };

/** Columns of the list that is ordered by the end. */
const COLUMNS_WITH_END: readonly Column<Row>[] = COLUMNS.flatMap((column) =>
  column.title === "Started" ? [column, ENDED] : [column],
);

/** Returns the columns of the list in an order. `reruns` has the newest rerun of each execution that was run again. */
export function columnsOf(order: ExecutionOrder, reruns: ReadonlyMap<string, string>): readonly Column<Row>[] {
  const status: Column<Row> = { title: "Status", cell: (row) => <Status row={row} rerun={reruns.get(row.id)} /> };
  return [status, ...(order === "LAST_ENDED" ? COLUMNS_WITH_END : COLUMNS)];
}

/** Columns of the list as a file. */
export const EXPORTED: readonly string[] = [
  "id",
  "path",
  "status",
  "statusText",
  "failedSteps",
  "startedAt",
  "endedAt",
  "error",
  "shard",
  "labels",
  "progress.stepsCompleted",
  "progress.stepsKnown",
  "parent.execution.id",
  "parent.subscription.id",
];

/** The status, and the mark of an execution that was run again, which leads to the rerun. */
function Status({ row, rerun }: { row: Row; rerun: string | undefined }) {
  return (
    <>
      <ExecutionStatus execution={row} />
      {rerun !== undefined && (
        <ObjectLink kind="execution" id={rerun} className={classes.rerun}>
          Was run again
        </ObjectLink>
      )}
    </>
  );
}

/** Path and id, one above the other on a narrow screen, and the labels below. */
function Name({ row: { id, path, labels } }: { row: Row }) {
  return (
    <>
      <span className={classes.name}>
        <Path id={id} path={path ?? "Unknown path"} />
        <IdLink kind="execution" id={id} />
      </span>
      <LabelChips labels={labels ?? []} max={MAX_LABELS} />
    </>
  );
}

function Path({ id, path }: { id: string; path: string }) {
  return (
    <LongText
      text={path}
      name="path"
      link={(shown) => (
        <ObjectLink kind="execution" id={id} className={classes.path} label={path}>
          {shown}
        </ObjectLink>
      )}
    />
  );
}

function Parent({ row: { parent } }: { row: Row }) {
  const starter = parent && objectOf(parent);
  if (!starter) {
    return <span className={classes.none}>{parent ? "Unknown" : "–"}</span>;
  }
  return (
    <ObjectLink kind={starter.kind} id={starter.id} className={classes.parent}>
      {starter.title}
    </ObjectLink>
  );
}

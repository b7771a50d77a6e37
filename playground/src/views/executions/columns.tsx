/** Columns of the list of executions. */

import { ObjectLink, objectOf } from "../../app/object_links";
import type { Column } from "../../ui/data_table";
import { ExecutionStatus } from "../../ui/execution_status";
import { IdLink } from "../../ui/id_link";
import { RunDuration } from "../../ui/run_duration";
import { Time } from "../../ui/time";
import type { ExecutionRowFragment } from "./operations.generated";
import { ProgressBar } from "./progress_bar";
import classes from "./columns.module.css";

type Row = ExecutionRowFragment;

export const COLUMNS: readonly Column<Row>[] = [
  { title: "Status", cell: (row) => <ExecutionStatus execution={row} /> },
  { title: "Execution", cell: (row) => <Name row={row} /> },
  { title: "Started", cell: ({ startedAt }) => <Time value={startedAt} /> },
  { title: "Duration", align: "right", cell: (row) => <RunDuration from={row.startedAt} to={row.endedAt} /> },
  { title: "Steps", cell: ({ progress, status }) => progress && <ProgressBar {...progress} status={status} /> },
  {
    title: "Error",
    cell: ({ error }) =>
      error !== null && (
        <span className={classes.error} title={error}>
          {error}
        </span>
      ),
  },
  { title: "Started by", cell: (row) => <Parent row={row} /> },
];

/** Path and id; one above the other on a narrow screen. */
function Name({ row: { id, path } }: { row: Row }) {
  return (
    <span className={classes.name}>
      <ObjectLink kind="execution" id={id} className={classes.path}>
        {path ?? "Unknown path"}
      </ObjectLink>
      <IdLink kind="execution" id={id} />
    </span>
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

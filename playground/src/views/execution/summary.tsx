/** The main facts of an execution. */

import { Link } from "@tanstack/react-router";

import { objectOf } from "../../app/object_links";
import { CopyButton } from "../../ui/copy_button";
import { ExecutionStatus } from "../../ui/execution_status";
import { FieldList } from "../../ui/field_list";
import { formatNumber } from "../../ui/format";
import { IdLink } from "../../ui/id_link";
import { RunDuration } from "../../ui/run_duration";
import { Time } from "../../ui/time";
import type { Execution } from "./live_execution";
import classes from "./summary.module.css";

interface Props {
  execution: Execution;
  /** Time of the moment that is shown; undefined: the newest state. */
  moment: string | undefined;
}

export function Summary({ execution, moment }: Props) {
  const { startedAt, endedAt } = execution;
  return (
    <div className={classes.summary}>
      <FieldList
        fields={[
          ["Status", <ExecutionStatus execution={execution} />],
          ["Started", <Time value={startedAt} absolute />],
          ["Ended", endedAt !== null && <Time value={endedAt} absolute />],
          ["Duration", <RunDuration from={startedAt} to={endedAt} moment={moment} />],
        ]}
      />
      <FieldList
        fields={[
          ["Path", <Path execution={execution} />],
          ["Started by", <Parent execution={execution} />],
          ["Reruns", (execution.reruns?.nodes.length ?? 0) > 0 && <Reruns execution={execution} />],
          ["Rerun of", execution.rerunOf && <IdLink kind="execution" id={execution.rerunOf.id} />],
          ["Trace id", <TraceId execution={execution} />],
        ]}
      />
      <FieldList
        fields={[
          ["Pool", execution.executionPool ?? "Default pool"],
          ["Tenant", `${execution.tenantId}, organization ${execution.organizationId}`],
          ["Events", execution.eventCount !== null && formatNumber(execution.eventCount)],
          ["Shard", String(execution.shard)],
        ]}
      />
    </div>
  );
}

function Path({ execution: { path, catalogEntry } }: { execution: Execution }) {
  if (path === null) {
    return "Unknown";
  }
  return (
    <>
      <Link to="/executions" search={{ path }} className={classes.link}>
        {path}
      </Link>
      {catalogEntry && ` version ${catalogEntry.version}`}
    </>
  );
}

/** The newest reruns. */
function Reruns({ execution: { reruns } }: { execution: Execution }) {
  return (
    <>
      {reruns?.nodes.map(({ id }) => (
        <div key={id}>
          <IdLink kind="execution" id={id} />
        </div>
      ))}
      {reruns?.pageInfo.hasNextPage && "and older ones"}
    </>
  );
}

function Parent({ execution: { parent } }: { execution: Execution }) {
  if (parent === null) {
    return "A request";
  }
  const starter = objectOf(parent);
  return starter ? (
    <>
      {starter.path} <IdLink kind={starter.kind} id={starter.id} />
    </>
  ) : (
    "Unknown"
  );
}

function TraceId({ execution: { trace } }: { execution: Execution }) {
  const id = trace?.traceparent.split("-")[1];
  return id === undefined ? (
    "None"
  ) : (
    <span className={classes.trace}>
      {id} <CopyButton value={id} name="trace id" />
    </span>
  );
}

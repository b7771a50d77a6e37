/** The main facts of an execution. */

import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useViewer } from "../../api/viewer";
import { CopyButton } from "../../ui/copy_button";
import { ExecutionStatus } from "../../ui/execution_status";
import { FieldList } from "../../ui/field_list";
import { formatNumber } from "../../ui/format";
import { IdLink } from "../../ui/id_link";
import { LabelChips } from "../../ui/label_chips";
import { objectOf } from "../../ui/object_links";
import { RunDuration } from "../../ui/run_duration";
import { Time } from "../../ui/time";
import type { Execution } from "./live_execution";
import type { LogEventFragment } from "./operations.generated";
import classes from "./summary.module.css";

interface Props {
  execution: Execution;
  /** Time of the moment that is shown; undefined: the newest state. */
  moment: string | undefined;
  /** Events of its log that were read. */
  events: readonly LogEventFragment[];
}

export function Summary({ execution, moment, events }: Props) {
  const { startedAt, endedAt } = execution;
  const dedupKey = dedupKeyOf(events);
  return (
    <div className={classes.summary}>
      <FieldList
        fields={[
          ["Status", <ExecutionStatus execution={execution} />],
          ["Started", <Time value={startedAt} running={endedAt === null} absolute />],
          ["Ended", endedAt !== null && <Time value={endedAt} absolute />],
          ["Duration", <RunDuration from={startedAt} to={endedAt} moment={moment} />],
        ]}
      />
      <FieldList
        fields={[
          ["Path", <Path execution={execution} />],
          ["Parent", <Parent execution={execution} />],
          ["Started by", execution.startedBy],
          ["Reruns", (execution.reruns?.nodes.length ?? 0) > 0 && <Reruns execution={execution} />],
          ["Rerun of", execution.rerunOf && <IdLink kind="execution" id={execution.rerunOf.id} />],
          ["Dedup key", dedupKey !== undefined && <DedupKey value={dedupKey} execution={execution} />],
          ["Trace id", <TraceId execution={execution} />],
        ]}
      />
      <FieldList
        fields={[
          ["Pool", execution.executionPool ?? "Default pool"],
          ["Labels", execution.labels && execution.labels.length > 0 && <LabelChips labels={execution.labels} />],
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

/** The newest reruns with their callers, and a link to all if there are more. */
function Reruns({ execution: { id: origin, reruns } }: { execution: Execution }) {
  return (
    <>
      {reruns?.nodes.map(({ id, startedAt, startedBy }) => (
        <div key={id}>
          <IdLink kind="execution" id={id} /> <Time value={startedAt} />
          {startedBy !== null && ` by ${startedBy}`}
        </div>
      ))}
      {reruns?.pageInfo.hasNextPage && (
        <Link to="/executions" search={{ rerunOf: origin }} className={classes.link}>
          All reruns
        </Link>
      )}
    </>
  );
}

function Parent({ execution: { parent } }: { execution: Execution }) {
  if (parent === null) {
    return "None";
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

/** Returns the dedup key of the request, from the started event; undefined if the request had none. */
function dedupKeyOf(events: readonly LogEventFragment[]): string | undefined {
  const meta = events.find(({ type }) => type === "playbook_started")?.meta;
  const key = (meta as { dedup?: { key?: unknown } } | null | undefined)?.dedup?.key;
  return typeof key === "string" ? key : undefined;
}

/** The key with a link to the list of its execution. A key belongs to the parent, if there is one. */
function DedupKey({ value, execution: { parent } }: { value: string; execution: Execution }) {
  const starter = parent && objectOf(parent);
  return (
    <span className={classes.trace}>
      <Link to="/executions" search={{ dedup: value, parent: starter?.id }} className={classes.link}>
        {value}
      </Link>{" "}
      <CopyButton value={value} name="dedup key" />
    </span>
  );
}

function TraceId({ execution: { trace } }: { execution: Execution }) {
  const { data } = useViewer();
  const page = data?.data.server?.traceUrl;
  const id = trace?.traceparent.split("-")[1];
  return id === undefined ? (
    "None"
  ) : (
    <span className={classes.trace}>
      {id} <CopyButton value={id} name="trace id" />
      {page && (
        <Anchor href={page.replaceAll("{traceId}", id)} target="_blank" rel="noreferrer" size="sm" display="block">
          Open the trace
        </Anchor>
      )}
    </span>
  );
}

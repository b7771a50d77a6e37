/** Steps of the last executions of a path: which one takes the time, and which one fails. */

import { Text } from "@mantine/core";

import { useApiQuery } from "../../api/hooks";
import { DataTable, type Column } from "../../ui/data_table";
import { formatNumber } from "../../ui/format";
import { Panel } from "../../ui/panel";
import { Failure, PartialData } from "../../ui/states";
import { TextLink } from "../../ui/text_link";
import { Duration, Time } from "../../ui/time";
import { CatalogStepsDocument, type CatalogStepsQuery } from "./operations.generated";
import classes from "./entry_steps.module.css";

type Stats = NonNullable<CatalogStepsQuery["stepStats"]>;
type Row = Stats["steps"][number];

const COLUMNS: readonly Column<Row>[] = [
  { title: "Step", cell: ({ name, slowestExecutionId: id }) => <StepOf id={id} step={name} text={name} /> },
  { title: "Share of the time", cell: ({ share }) => <Share share={share} /> },
  { title: "p50", align: "right", cell: ({ durationSeconds }) => <Duration seconds={durationSeconds?.p50 ?? null} /> },
  { title: "p95", align: "right", cell: ({ durationSeconds }) => <Duration seconds={durationSeconds?.p95 ?? null} /> },
  { title: "Executions", align: "right", cell: ({ executions }) => formatNumber(executions) },
  {
    title: "Failures",
    align: "right",
    cell: ({ name, failed, lastFailedExecutionId: id }) => (
      <StepOf id={id} step={name} text={formatNumber(failed)} label={`${formatNumber(failed)} failed: last failure of ${name}`} />
    ),
  },
];

export function EntrySteps({ path }: { path: string }) {
  const { data, error, refetch } = useApiQuery(CatalogStepsDocument, { path });
  const stats = data?.data.stepStats;
  const isMissing = error !== null || (data !== undefined && (data.errors.length > 0 || (stats?.unavailableShards.length ?? 0) > 0));
  if (!isMissing && (!stats || stats.steps.length === 0)) {
    return null;
  }
  return (
    <Panel title="Steps of the last 100 executions" actions={<FailedOnes path={path} />}>
      {error && <Failure error={error} retry={refetch} />}
      {data && <PartialData unavailableShards={stats?.unavailableShards ?? []} errors={data.errors} />}
      {stats && stats.steps.length > 0 && <Steps stats={stats} />}
    </Panel>
  );
}

function FailedOnes({ path }: { path: string }) {
  return (
    <TextLink to="/executions" search={{ path, statuses: "FAILED" }} size="xs">
      Failed executions
    </TextLink>
  );
}

function Steps({ stats: { executions, from, to, steps, moreSteps } }: { stats: Stats }) {
  return (
    <>
      <Text size="xs" c="dimmed" component="p" m={0} mb={4}>
        {formatNumber(executions)} ended {executions === 1 ? "execution" : "executions"}, from <Time value={from} /> to{" "}
        <Time value={to} />. A step leads to its slowest execution, its failures to the last one.
        {moreSteps && ` The table has the first ${formatNumber(steps.length)} steps.`}
      </Text>
      <DataTable label="Steps of the last executions" columns={COLUMNS} rows={steps} rowKey={(step) => step.name} />
    </>
  );
}

interface StepProps {
  /** Execution in which the step is shown; null: there is none. */
  id: string | null;
  step: string;
  text: string;
  label?: string;
}

function StepOf({ id, step, text, label }: StepProps) {
  return id === null ? (
    text
  ) : (
    <TextLink to="/executions/$id" params={{ id }} search={{ step }} size="sm" {...(label !== undefined && { "aria-label": label })}>
      {text}
    </TextLink>
  );
}

function Share({ share }: { share: number }) {
  return (
    <span className={classes.share}>
      <span className={classes.track} aria-hidden="true">
        <span className={classes.bar} style={{ width: `${share * 100}%` }} />
      </span>
      {Math.round(share * 100)} %
    </span>
  );
}

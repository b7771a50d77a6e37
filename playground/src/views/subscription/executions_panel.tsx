/** The executions that the subscription started, newest first, read every three seconds. */

import { Button, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useApiPages } from "../../api/hooks";
import { DataTable, type Column } from "../../ui/data_table";
import { IdLink } from "../../ui/id_link";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { Duration, Time } from "../../ui/time";
import { SubscriptionExecutionsDocument, type SubscriptionExecutionsQuery } from "./operations.generated";

type Execution = NonNullable<SubscriptionExecutionsQuery["executions"]>["nodes"][number];

const EVERY_MS = 3_000;

const COLUMNS: readonly Column<Execution>[] = [
  { title: "Execution", cell: (execution) => <IdLink id={execution.id} kind="execution" /> },
  { title: "State", cell: (execution) => <StatusBadge status={execution.status} /> },
  { title: "Path", cell: (execution) => execution.path ?? "–" },
  { title: "Started", cell: (execution) => <Time value={execution.startedAt} /> },
  { title: "Duration", align: "right", cell: (execution) => <Duration seconds={durationOf(execution)} /> },
  {
    title: "Error",
    cell: ({ error }) =>
      error !== null && (
        <Text size="sm" truncate maw={280} title={error}>
          {error}
        </Text>
      ),
  },
];

export function ExecutionsPanel({ id }: { id: string }) {
  const list = useApiPages(SubscriptionExecutionsDocument, { id }, (data) => data.executions, { every: EVERY_MS });
  const { data, error, refetch } = list.query;
  const anyError = list.nodes.some((execution) => execution.error !== null);
  return (
    <Panel
      title="Executions"
      actions={
        <Button
          variant="subtle"
          size="compact-xs"
          renderRoot={(props) => <Link {...props} to="/events" search={{ parent: id, from: "beginning" }} />}
        >
          Their events
        </Button>
      }
    >
      {error && <Failure error={error} retry={refetch} />}
      {!data && !error && <Loading />}
      <PartialData unavailableShards={list.unavailableShards} errors={list.errors} />
      {data && (
        <DataTable
          label="Executions of the subscription"
          columns={anyError ? COLUMNS : COLUMNS.slice(0, -1)}
          rows={list.nodes}
          rowKey={(execution) => execution.id}
          empty={<Empty title="No executions yet">Each message that the subscription receives starts one.</Empty>}
          pages={list.query}
        />
      )}
    </Panel>
  );
}

function durationOf({ startedAt, endedAt }: Execution): number | null {
  return startedAt !== null && endedAt !== null ? (Date.parse(endedAt) - Date.parse(startedAt)) / 1_000 : null;
}

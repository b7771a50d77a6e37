/** The executions that the subscription started, newest first, read every three seconds. */

import { Button, TextInput } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";

import { useApiPages } from "../../api/hooks";
import { DataTable, type Column } from "../../ui/data_table";
import { ExportMenu } from "../../ui/export_menu";
import { IdLink } from "../../ui/id_link";
import { LongMessage } from "../../ui/long_message";
import { LongText } from "../../ui/long_text";
import { Panel } from "../../ui/panel";
import { RunDuration } from "../../ui/run_duration";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { Time } from "../../ui/time";
import { SubscriptionExecutionsDocument, type SubscriptionExecutionsQuery } from "./operations.generated";
import classes from "./view.module.css";

type Execution = NonNullable<SubscriptionExecutionsQuery["executions"]>["nodes"][number];

const EVERY_MS = 3_000;
const PATH = "Path";
const ERROR = "Error";

const COLUMNS: readonly Column<Execution>[] = [
  { title: "Execution", cell: (execution) => <IdLink id={execution.id} kind="execution" /> },
  { title: "Status", cell: (execution) => <StatusBadge status={execution.status} /> },
  { title: PATH, cell: ({ path }) => (path === null ? "–" : <LongText text={path} name="path" />) },
  { title: "Started", cell: ({ startedAt, endedAt }) => <Time value={startedAt} running={endedAt === null} /> },
  { title: "Duration", align: "right", cell: ({ startedAt, endedAt }) => <RunDuration from={startedAt} to={endedAt} /> },
  {
    title: ERROR,
    cell: ({ error }) =>
      error !== null && (
        <span className={classes.error}>
          <LongMessage text={error} name="error" />
        </span>
      ),
  },
];

/** Columns of the list as a file. */
const EXPORTED: readonly string[] = ["id", "path", "status", "startedAt", "endedAt", "error"];

export function ExecutionsPanel({ id }: { id: string }) {
  const list = useApiPages(SubscriptionExecutionsDocument, { id }, (data) => data.executions, { every: EVERY_MS });
  const { data, error, refetch } = list.query;
  return (
    <Panel
      title="Executions"
      actions={
        <>
          <KeyField id={id} />
          <Button
            variant="subtle"
            size="compact-xs"
            renderRoot={(props) => <Link {...props} to="/events" search={{ parent: id, from: "beginning" }} />}
          >
            Their events
          </Button>
          <ExportMenu
            name={`executions-${id}`}
            document={SubscriptionExecutionsDocument}
            variables={{ id }}
            select={(data) => data.executions}
            columns={EXPORTED}
          />
        </>
      }
    >
      {error && <Failure error={error} retry={refetch} />}
      {!data && !error && <Loading />}
      <PartialData unavailableShards={list.unavailableShards} errors={list.errors} />
      {data && (
        <DataTable
          label="Executions of the subscription"
          columns={columnsFor(list.nodes)}
          rows={list.nodes}
          rowKey={(execution) => execution.id}
          empty={<Empty title="No executions yet">Each message that the subscription receives starts one.</Empty>}
          pages={list.query}
        />
      )}
    </Panel>
  );
}

/** Opens the list with the execution of a dedup key of the subscription. */
function KeyField({ id }: { id: string }) {
  const [draft, setDraft] = useState("");
  const navigate = useNavigate();
  function open(event: FormEvent) {
    event.preventDefault();
    const dedup = draft.trim();
    if (dedup !== "") {
      void navigate({ to: "/executions", search: { parent: id, dedup } });
    }
  }
  return (
    <form onSubmit={open}>
      <TextInput
        aria-label="Dedup key"
        placeholder="Dedup key"
        title="Enter shows the execution of the message with this key. Keys expire."
        size="xs"
        value={draft}
        onChange={(event) => setDraft(event.currentTarget.value)}
        spellCheck={false}
        autoComplete="off"
      />
    </form>
  );
}

/** Returns the columns that say something: the path only if the executions differ in it, the error only if one failed. */
function columnsFor(executions: readonly Execution[]): readonly Column<Execution>[] {
  const paths = new Set(executions.map((execution) => execution.path));
  const failed = executions.some((execution) => execution.error !== null);
  return COLUMNS.filter(({ title }) => (title !== PATH || paths.size > 1) && (title !== ERROR || failed));
}

/** Who did what, and why: the cancellations, starts and changes of source subscriptions in the logs, newest first. */

import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { useApiPages } from "../../api/hooks";
import { DataTable, type Column } from "../../ui/data_table";
import { IdLink } from "../../ui/id_link";
import { LongText } from "../../ui/long_text";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { Time } from "../../ui/time";
import { ViewPage } from "../../ui/view_page";
import { AuditFilters } from "./audit_filters";
import { contains, entryOf, variablesOf, type Entry } from "./entry";
import { AuditLogDocument } from "./operations.generated";
import classes from "./view.module.css";

const route = getRouteApi("/audit");
const EVERY_MS = 5_000;

const COLUMNS: readonly Column<Entry>[] = [
  { title: "Time", cell: ({ at }) => <Time value={at} /> },
  { title: "Caller", cell: ({ actor }) => actor ?? <span className={classes.none}>Not identified</span> },
  { title: "Action", cell: ({ action }) => action },
  { title: "Object", cell: (entry) => <ObjectOf entry={entry} /> },
  { title: "Reason", cell: (entry) => <ReasonOf entry={entry} /> },
];

export function AuditView() {
  const { action, path, since, until, find } = route.useSearch();
  const variables = useMemo(
    () => variablesOf({ action, path, since, until }, Date.now()),
    [action, path, since, until],
  );
  const list = useApiPages(AuditLogDocument, variables, (data) => data.events, {
    every: EVERY_MS,
    firstPageOnly: true,
  });
  const { data, error, refetch } = list.query;
  const refreshed = data && data.pages.length > 1 ? ", not refreshed while more than one page is loaded" : "";
  const found = list.nodes.map(entryOf).filter((entry) => contains(entry, find));
  return (
    <ViewPage
      title="Audit"
      description="Who did what to executions and subscriptions, and why. Changes of the catalog and the outbox are only in the server's log."
      actions={<OpenAsGraphql document={AuditLogDocument} variables={variables} />}
    >
      <AuditFilters />
      <Panel
        title={find ? `Actions with “${find}”: ${found.length} of ${list.nodes.length} loaded` : `Newest first${refreshed}`}
      >
        {error && <Failure error={error} retry={refetch} />}
        <PartialData unavailableShards={list.unavailableShards} errors={list.errors} />
        {data && <DataTable label="Actions" columns={COLUMNS} rows={found} rowKey={({ id }) => id} pages={list.query} />}
        {data && found.length === 0 && (
          <Empty title="No action is listed">
            {list.query.hasNextPage ? "Load more actions, or change the filter." : "Change the filter or clear it."}
          </Empty>
        )}
        {!data && !error && <Loading />}
      </Panel>
    </ViewPage>
  );
}

function ObjectOf({ entry: { kind, objectId, path } }: { entry: Entry }) {
  return (
    <span className={classes.object}>
      <span>
        <LongText text={path ?? (kind === "subscription" ? "Subscription" : "Execution")} name="path" />
      </span>
      <IdLink kind={kind} id={objectId} />
    </span>
  );
}

/** The reason, or for a rerun the execution that was run again. */
function ReasonOf({ entry: { reason, origin } }: { entry: Entry }) {
  if (origin !== null) {
    return (
      <span className={classes.object}>
        Rerun of <IdLink kind="execution" id={origin} />
      </span>
    );
  }
  return reason === null ? <span className={classes.none}>–</span> : <span className={classes.reason}>{reason}</span>;
}

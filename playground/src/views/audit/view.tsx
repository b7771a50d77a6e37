/**
 * Who did what, and why: the cancellations, reruns, starts, retried and discarded deliveries, and changes of source
 * subscriptions and catalog entries, newest first.
 */

import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { NOT_IDENTIFIED } from "../../api/viewer";
import { DataTable, type Column } from "../../ui/data_table";
import { IdLink } from "../../ui/id_link";
import { LongText } from "../../ui/long_text";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { TextLink } from "../../ui/text_link";
import { Time } from "../../ui/time";
import { ViewPage } from "../../ui/view_page";
import { AuditExports } from "./audit_exports";
import { AuditFilters } from "./audit_filters";
import { contains, listsOf, type Entry, type Lists } from "./entry";
import { AuditEntriesDocument, AuditLogDocument, AuditRerunsDocument } from "./operations.generated";
import { useAudit } from "./use_audit";
import classes from "./view.module.css";

const route = getRouteApi("/audit");

const COLUMNS: readonly Column<Entry>[] = [
  { title: "Time", cell: ({ at }) => <Time value={at} /> },
  { title: "Caller", cell: ({ actor }) => actor ?? <span className={classes.none}>{NOT_IDENTIFIED}</span> },
  { title: "Action", cell: ({ action }) => action },
  { title: "Object", cell: (entry) => <ObjectOf entry={entry} /> },
  { title: "Reason", cell: (entry) => <ReasonOf entry={entry} /> },
];

export function AuditView() {
  const { action, path, since, until, find } = route.useSearch();
  const lists = useMemo(() => listsOf({ action, path, since, until }, Date.now()), [action, path, since, until]);
  const { entries, pages, isRead, isLong, failed, unavailableShards, errors } = useAudit(lists);
  const found = entries.filter((entry) => contains(entry, find));
  const title = find ? `Actions with “${find}”: ${found.length} of ${entries.length} loaded` : "Newest first";
  return (
    <ViewPage
      title="Audit"
      description="Who did what to executions, their deliveries, subscriptions and catalog entries, and why. A catalog entry that was restored is not listed as retired."
      actions={
        <>
          <AuditExports lists={lists} find={find} />
          <OpenFirstList lists={lists} />
        </>
      }
    >
      <AuditFilters />
      <Panel title={isLong ? `${title}, not refreshed while more than one page is loaded` : title}>
        {failed?.error && <Failure error={failed.error} retry={failed.refetch} />}
        <PartialData unavailableShards={unavailableShards} errors={errors} />
        {isRead && <DataTable label="Actions" columns={COLUMNS} rows={found} rowKey={({ id }) => id} pages={pages} />}
        {isRead && !failed && found.length === 0 && (
          <Empty title="No action is listed">
            {pages.hasNextPage ? "Load more actions, or change the filter." : "Change the filter or clear it."}
          </Empty>
        )}
        {!isRead && <Loading />}
      </Panel>
    </ViewPage>
  );
}

/** Opens the first list that the view reads. */
function OpenFirstList({ lists: { log, reruns, registrations, retirements } }: { lists: Lists }) {
  if (log) {
    return <OpenAsGraphql document={AuditLogDocument} variables={log} />;
  }
  if (reruns) {
    return <OpenAsGraphql document={AuditRerunsDocument} variables={reruns} />;
  }
  return <OpenAsGraphql document={AuditEntriesDocument} variables={registrations ?? retirements ?? {}} />;
}

function ObjectOf({ entry: { kind, objectId, path, version } }: { entry: Entry }) {
  return (
    <span className={classes.object}>
      <span>
        <LongText text={path ?? (kind === "subscription" ? "Subscription" : "Execution")} name="path" />
      </span>
      {kind === "catalogEntry" ? (
        <TextLink to="/catalog/$" params={{ _splat: path ?? "" }} search={{ version: String(version) }} inherit>
          Version {version}
        </TextLink>
      ) : (
        <IdLink kind={kind} id={objectId} />
      )}
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

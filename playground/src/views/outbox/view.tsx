/** The outbox: depth, age and failures; the entries, their messages, and retry and discard of dead letters. */

import { getRouteApi } from "@tanstack/react-router";
import { useMemo } from "react";

import { useApiPages } from "../../api/hooks";
import { useSystemStatus } from "../../api/system_status";
import { ExportMenu } from "../../ui/export_menu";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Panel } from "../../ui/panel";
import { Failure, Loading, PartialData } from "../../ui/states";
import { ViewPage } from "../../ui/view_page";
import { BulkActions } from "./bulk_actions";
import { EntryDetails } from "./entry_details";
import { EntryTable, EXPORTED } from "./entry_table";
import { contains, filterOf } from "./filter";
import { OutboxEntriesDocument, type OutboxEntryFieldsFragment } from "./operations.generated";
import { OutboxFilters } from "./outbox_filters";
import { OutboxState } from "./outbox_state";

const route = getRouteApi("/outbox");
const EVERY_MS = 3_000;

export function OutboxView() {
  const { entry, find, ...conditions } = route.useSearch();
  const variables = { filter: filterOf(conditions) };
  const navigate = route.useNavigate();
  const status = useSystemStatus();
  const close = () => void navigate({ search: (before) => ({ ...before, entry: undefined }), replace: true, resetScroll: false });
  return (
    <ViewPage
      title="Outbox"
      description="Messages for the broker, written with the events. A relay or a worker claims and delivers them."
      actions={
        <>
          <ExportMenu
            name="outbox"
            document={OutboxEntriesDocument}
            variables={variables}
            select={(data) => data.outbox?.entries ?? null}
            columns={EXPORTED}
            shows={(row: OutboxEntryFieldsFragment) => contains(row, find)}
          />
          <OpenAsGraphql document={OutboxEntriesDocument} variables={variables} />
        </>
      }
    >
      <OutboxState history={status} />
      <OutboxFilters />
      <Entries />
      {entry !== undefined && <EntryDetails id={entry} onClose={close} />}
    </ViewPage>
  );
}

function Entries() {
  const { statuses, execution, attempts, find } = route.useSearch();
  const filter = useMemo(() => filterOf({ statuses, execution, attempts }), [statuses, execution, attempts]);
  const list = useApiPages(OutboxEntriesDocument, { filter }, (data) => data.outbox?.entries ?? null, {
    every: EVERY_MS,
    firstPageOnly: true,
  });
  const { data, error, refetch } = list.query;
  const refreshed = data && data.pages.length > 1 ? ", not refreshed while more than one page is loaded" : "";
  const found = list.nodes.filter((entry) => contains(entry, find));
  return (
    <Panel
      title={find ? `Entries with “${find}”: ${found.length} of ${list.nodes.length} loaded` : `Entries${refreshed}`}
      actions={<BulkActions filter={filter} searching={find !== undefined} />}
    >
      {error && <Failure error={error} retry={refetch} />}
      <PartialData unavailableShards={list.unavailableShards} errors={list.errors} />
      {data && <EntryTable entries={found} filtered={filter !== null || find !== undefined} pages={list.query} />}
      {!data && !error && <Loading />}
    </Panel>
  );
}

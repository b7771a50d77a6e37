/** The executions as they change: filters of the server, numbers by status, saved views, and actions on many of them. */

import { Button, Group } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay, IconRefresh, IconRocket } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import type { ExecutionFilter, ExecutionOrder } from "../../api/schema.generated";
import { LiveBadge } from "../../ui/live_badge";
import { DataTable } from "../../ui/data_table";
import { ExportMenu } from "../../ui/export_menu";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { ViewPage } from "../../ui/view_page";
import { CancelMany } from "./cancel_many";
import { columnsOf, EXPORTED } from "./columns";
import { DEDUP_HINT, ERROR_HINT, filterOf, statusesOf } from "./filter";
import { ListFilters } from "./list_filters";
import { useExecutionList, type ExecutionList } from "./live_list";
import { ExecutionListDocument } from "./operations.generated";
import { labelOf, NEWEST, orderOf } from "./order";
import { RerunMany } from "./rerun_many";
import type { ExecutionsSearch } from "./search";
import { SavedViews } from "./saved_views";
import { SelectionBar, useSelection, withBoxes } from "./selection";
import { StatusCounts } from "./status_counts";

const route = getRouteApi("/executions");

export function ExecutionsView() {
  const { order: orderText, ...search } = route.useSearch();
  const address = JSON.stringify(search);
  // A duration in the address counts back from the moment at which the filter was chosen.
  const filter = useMemo(() => filterOf(JSON.parse(address) as ExecutionsSearch, Date.now()), [address]);
  const [paused, setPaused] = useState(false);
  const order = orderOf(orderText);
  const list = useExecutionList(filter, order, paused);
  return (
    <ViewPage
      title="Executions"
      actions={
        <>
          <SavedViews />
          <RerunMany target={{ by: "filter", filter }} />
          <CancelMany target={{ by: "filter", filter }} />
          <ExportMenu
            name="executions"
            document={ExecutionListDocument}
            variables={{ filter, order }}
            select={(data) => data.executions}
            columns={EXPORTED}
          />
          <OpenAsGraphql document={ExecutionListDocument} variables={{ filter, order }} />
        </>
      }
    >
      <ListFilters />
      <Group justify="space-between" gap="xs">
        <StatusCounts filter={filter} chosen={statusesOf(search.statuses)} />
        <Group gap="sm">
          <LiveBadge
            name="List"
            state={list.pages.query.isLoadingError ? "ended" : list.live.state}
            paused={paused && order === NEWEST}
          />
          {order === NEWEST ? (
            <PauseButton paused={paused} onChange={setPaused} />
          ) : (
            <ReloadButton query={list.pages.query} />
          )}
        </Group>
      </Group>
      <Content list={list} order={order} filter={filter} paused={paused} />
    </ViewPage>
  );
}

function PauseButton({ paused, onChange }: { paused: boolean; onChange: (paused: boolean) => void }) {
  const icon = paused ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />;
  return (
    <Button size="xs" variant={paused ? "filled" : "default"} leftSection={icon} onClick={() => onChange(!paused)}>
      {paused ? "Resume" : "Pause"}
    </Button>
  );
}

/** Loads a list that is not live again. */
function ReloadButton({ query: { isFetching, refetch } }: { query: ExecutionList["pages"]["query"] }) {
  const icon = <IconRefresh size={14} />;
  return (
    <Button size="xs" variant="default" leftSection={icon} loading={isFetching} onClick={() => void refetch()}>
      Load again
    </Button>
  );
}

interface ContentProps {
  list: ExecutionList;
  order: ExecutionOrder;
  filter: ExecutionFilter;
  paused: boolean;
}

function Content({ list: { rows, pages, live, gaps }, order, filter, paused }: ContentProps) {
  const { query } = pages;
  const selection = useSelection(rows, filter);
  const failure = query.error && <Failure error={query.error} retry={query.refetch} />;
  if (!query.data) {
    return failure ?? <Loading lines={8} />;
  }
  return (
    <>
      {failure}
      <PartialData unavailableShards={[...new Set([...pages.unavailableShards, ...gaps])]} errors={pages.errors} />
      {live.state === "ended" && live.error && <Failure error={live.error} />}
      <Panel title={labelOf(order)}>
        <SelectionBar rows={rows} selection={selection} />
        <DataTable
          label="Executions"
          columns={withBoxes(columnsOf(order, lastReruns(pages.nodes)), selection)}
          rows={rows}
          rowKey={(row) => row.id}
          empty={<NoExecutions order={order} filter={filter} />}
          pages={query}
          endless
          live={order === NEWEST && !paused}
        />
      </Panel>
    </>
  );
}

/** Returns the newest reruns by the ids of their executions, as of when the pages were read. */
function lastReruns(nodes: ExecutionList["pages"]["nodes"]): ReadonlyMap<string, string> {
  return new Map(nodes.flatMap(({ id, reruns }) => reruns?.nodes.map((rerun) => [id, rerun.id] as const) ?? []));
}

function NoExecutions({ order, filter }: Pick<ContentProps, "order" | "filter">) {
  if (order === "LONGEST" || order === "LAST_ENDED") {
    return <Empty title="No execution of the list has ended">Change the filter, or load the list again later.</Empty>;
  }
  return Object.keys(filter).length > 0 ? (
    <Empty title="No execution matches the filter">
      {filter.dedupKey !== undefined && <p>{DEDUP_HINT}</p>}
      {filter.errorContains !== undefined && <p>{ERROR_HINT}</p>}
      Change or clear the filter. New executions appear here as they start.
    </Empty>
  ) : (
    <Empty title="No executions yet">
      <p>Executions appear here as they start, by a source subscription or by hand.</p>
      <Button renderRoot={(props) => <Link {...props} to="/execute" />} size="xs" leftSection={<IconRocket size={14} />}>
        Execute a playbook
      </Button>
    </Empty>
  );
}

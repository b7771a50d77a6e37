/** The executions as they change: filters of the server, numbers by status, saved views, and cancelling by filter. */

import { Button, Group } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay, IconRocket } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { LiveBadge } from "../../ui/live_badge";
import { DataTable } from "../../ui/data_table";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { ViewPage } from "../../ui/view_page";
import { CancelFiltered } from "./cancel_filtered";
import { COLUMNS } from "./columns";
import { filterOf, statusesOf } from "./filter";
import { ListFilters } from "./list_filters";
import { useExecutionList, type ExecutionList } from "./live_list";
import { ExecutionListDocument } from "./operations.generated";
import { SavedViews } from "./saved_views";
import { StatusCounts } from "./status_counts";

const route = getRouteApi("/executions");

export function ExecutionsView() {
  const { statuses, path, parent, since, until } = route.useSearch();
  const filter = useMemo(
    () => filterOf({ statuses, path, parent, since, until }, Date.now()),
    [statuses, path, parent, since, until],
  );
  const [paused, setPaused] = useState(false);
  const list = useExecutionList(filter, paused);
  return (
    <ViewPage
      title="Executions"
      actions={
        <>
          <SavedViews />
          <CancelFiltered filter={filter} />
          <OpenAsGraphql document={ExecutionListDocument} variables={{ filter }} />
        </>
      }
    >
      <ListFilters />
      <Group justify="space-between" gap="xs">
        <StatusCounts filter={filter} chosen={statusesOf(statuses)} />
        <Group gap="sm">
          <LiveBadge name="List" state={list.pages.query.error ? "ended" : list.live.state} paused={paused} />
          <PauseButton paused={paused} onChange={setPaused} />
        </Group>
      </Group>
      <Content list={list} filtered={Object.keys(filter).length > 0} />
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

function Content({ list: { rows, pages, live, gaps }, filtered }: { list: ExecutionList; filtered: boolean }) {
  const { query } = pages;
  if (query.error) {
    return <Failure error={query.error} retry={query.refetch} />;
  }
  if (!query.data) {
    return <Loading lines={8} />;
  }
  return (
    <>
      <PartialData unavailableShards={[...new Set([...pages.unavailableShards, ...gaps])]} errors={pages.errors} />
      {live.state === "ended" && live.error && <Failure error={live.error} />}
      <Panel title="Newest first">
        <DataTable
          label="Executions"
          columns={COLUMNS}
          rows={rows}
          rowKey={(row) => row.id}
          empty={<NoExecutions filtered={filtered} />}
          pages={query}
        />
      </Panel>
    </>
  );
}

function NoExecutions({ filtered }: { filtered: boolean }) {
  return filtered ? (
    <Empty title="No execution matches the filter">Change or clear the filter. New executions appear here as they start.</Empty>
  ) : (
    <Empty title="No executions yet">
      <p>Executions appear here as they start, by a source subscription or by hand.</p>
      <Button renderRoot={(props) => <Link {...props} to="/execute" />} size="xs" leftSection={<IconRocket size={14} />}>
        Execute a playbook
      </Button>
    </Empty>
  );
}

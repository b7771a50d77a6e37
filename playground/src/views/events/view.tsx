/** The events as they commit: filters of the server, search, pause, and the details of an event. */

import { getRouteApi } from "@tanstack/react-router";
import { memo, useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";

import { ExportMenu } from "../../ui/export_menu";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Failure } from "../../ui/states";
import { ViewPage } from "../../ui/view_page";
import { EventDetails } from "./event_details";
import { EventFilters } from "./event_filters";
import { EventList } from "./event_list";
import { CAPACITY, EventLog } from "./event_log";
import { LogControls } from "./log_controls";
import { MissingShards } from "./missing_shards";
import { EventsTailDocument } from "./operations.generated";
import { filterOf, startOf } from "./stream_variables";
import classes from "./view.module.css";

const route = getRouteApi("/events");
/** Columns of the list as a file. */
const EXPORTED: readonly string[] = ["eventId", "executionId", "type", "nodeName", "status", "createdAt", "shard", "error"];

export function EventsView() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [log] = useState(() => new EventLog());
  const [attempt, setAttempt] = useState(0);
  const { types, executions, parent, nodes, statuses, from } = search;
  const variables = useMemo(
    () => ({ filter: filterOf({ types, executions, parent, nodes, statuses }), start: startOf(from) }),
    [types, executions, parent, nodes, statuses, from],
  );
  useEffect(() => log.follow(variables.filter, variables.start), [log, variables, attempt]);
  useEffect(() => log.search(search.find ?? ""), [log, search.find]);

  const open = useCallback(
    (event: string | undefined) =>
      void navigate({ search: (before) => ({ ...before, event }), replace: true, resetScroll: false }),
    [navigate],
  );
  const retry = useCallback(() => setAttempt((before) => before + 1), []);
  return (
    <ViewPage
      title="Events"
      fill
      actions={
        <>
          <ExportMenu name="events" columns={EXPORTED} loaded={() => log.shownEvents()} limit={CAPACITY} />
          <OpenAsGraphql document={EventsTailDocument} variables={variables} />
        </>
      }
    >
      <EventFilters />
      <Log log={log} selected={search.event} onSelect={open} onRetry={retry} />
    </ViewPage>
  );
}

interface LogProps {
  log: EventLog;
  selected: string | undefined;
  onSelect: (event: string | undefined) => void;
  onRetry: () => void;
}

/** The part of the view that is drawn with each change of the log. */
const Log = memo(function Log({ log, selected, onSelect, onRetry }: LogProps) {
  const snapshot = useSyncExternalStore(log.subscribe, log.snapshot);
  return (
    <>
      <LogControls log={log} snapshot={snapshot} />
      <MissingShards />
      {snapshot.error && <Failure error={snapshot.error} retry={onRetry} />}
      <div className={classes.content} data-details={selected !== undefined}>
        <EventList log={log} snapshot={snapshot} selected={selected} onSelect={onSelect} />
        {selected !== undefined && <EventDetails id={selected} log={log} onClose={() => onSelect(undefined)} />}
      </div>
    </>
  );
});


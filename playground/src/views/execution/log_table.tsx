/** The events of an execution, newest first. Each leads to its details in the Events view, and to the state after it. */

import { Button, Group, Text } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";

import { useZone } from "../../ui/clock";
import { DataTable, type Column } from "../../ui/data_table";
import { formatClock, formatDuration, formatNumber } from "../../ui/format";
import { LongText } from "../../ui/long_text";
import { Empty, Failure, Loading } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { EarlierEvents } from "./earlier_events";
import type { Log } from "./log_reader";
import type { LogEventFragment } from "./operations.generated";
import { ErrorOf } from "./steps_table";
import classes from "./steps_table.module.css";

const route = getRouteApi("/executions/$id");
const PAGE = 100;

interface Row {
  event: LogEventFragment;
  /** Seconds since the first event. */
  after: number;
}

const COLUMNS: readonly Column<Row>[] = [
  { title: "Time", cell: ({ event }) => <Clock time={event.createdAt} /> },
  { title: "After", align: "right", cell: ({ after }) => formatDuration(after) },
  { title: "Type", cell: ({ event }) => <EventLink event={event} /> },
  { title: "Step", cell: ({ event: { nodeName } }) => nodeName !== null && <LongText text={nodeName} name="step" /> },
  { title: "Status", cell: ({ event: { status } }) => status !== null && <StatusBadge status={status} /> },
  { title: "Error", cell: ({ event: { error } }) => error !== null && <ErrorOf error={error} /> },
  { title: "State", cell: ({ event }) => <StateLink event={event} /> },
];

export function LogTable({ log, step }: { log: Log; step: string | undefined }) {
  const { id } = route.useParams();
  const [shown, setShown] = useState(PAGE);
  if (log.error && log.events.length === 0) {
    return <Failure error={log.error} retry={log.retry} />;
  }
  if (!log.read && log.events.length === 0) {
    return <Loading />;
  }
  const first = Date.parse((log.start[0] ?? log.events[0])?.createdAt ?? "");
  const rows = log.events
    .filter((event) => step === undefined || event.nodeName === step)
    .toReversed()
    .map((event) => ({ event, after: Math.max(0, Date.parse(event.createdAt) - first) / 1_000 }));
  return (
    <>
      <Group justify="space-between" mb="xs" gap="xs">
        <Text size="xs" c="dimmed">
          {step === undefined ? `${formatNumber(log.total)} events, newest first.` : `Events of the step ${step}, newest first.`}
        </Text>
        {step !== undefined && <AllEvents />}
        <Button
          renderRoot={(props) => <Link {...props} to="/events" search={{ executions: id, from: "beginning" }} />}
          size="xs"
          variant="default"
        >
          Open in Events
        </Button>
      </Group>
      <EarlierEvents log={log} />
      <DataTable
        label="Events of the execution"
        columns={COLUMNS}
        rows={rows.slice(0, shown)}
        rowKey={({ event }) => event.id}
        empty={
          log.earlier ? (
            <Empty title="No loaded event is of this step">Load earlier events.</Empty>
          ) : (
            <Empty title="No event of this step yet">Events appear here when a worker begins the step.</Empty>
          )
        }
        pages={{ hasNextPage: rows.length > shown, isFetchingNextPage: false, fetchNextPage: () => setShown(shown + PAGE) }}
      />
    </>
  );
}

function AllEvents() {
  const navigate = route.useNavigate();
  const show = () => void navigate({ search: (before) => ({ ...before, step: undefined }), replace: true, resetScroll: false });
  return (
    <Button size="xs" variant="default" onClick={show}>
      Show the events of all steps
    </Button>
  );
}

function Clock({ time }: { time: string }) {
  const zone = useZone();
  return <time dateTime={time}>{formatClock(time, zone)}</time>;
}

function EventLink({ event }: { event: LogEventFragment }) {
  const { id } = route.useParams();
  return (
    <Link to="/events" search={{ executions: id, from: "beginning", event: event.id }} className={classes.step}>
      {event.type}
    </Link>
  );
}

function StateLink({ event }: { event: LogEventFragment }) {
  return (
    <Link
      from="/executions/$id"
      to="."
      search={(before) => ({ ...before, at: event.eventId, tab: undefined })}
      className={classes.link}
      aria-label={`Show state after ${event.type} ${event.eventId}`}
    >
      Show state
    </Link>
  );
}

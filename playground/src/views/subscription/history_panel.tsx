/** The lifecycle of the subscription as a timeline, newest first: each change with its time, its caller and its reason. */

import { Button, Text, Timeline } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { useApiQuery } from "../../api/hooks";
import { formatCount, formatDuration } from "../../ui/format";
import { Panel } from "../../ui/panel";
import { Failure, Loading, PartialData } from "../../ui/states";
import { inWords } from "../../ui/status_badge";
import { textOf } from "../../ui/text_of";
import { Time } from "../../ui/time";
import { toneOf } from "../../ui/tone";
import { SubscriptionHistoryDocument, type SubscriptionHistoryQuery } from "./operations.generated";
import classes from "./history_panel.module.css";

const FIRST = 10;
const MOST = 100;

type LifecycleEvent = NonNullable<SubscriptionHistoryQuery["events"]>["nodes"][number];

export function HistoryPanel({ id }: { id: string }) {
  const [last, setLast] = useState(FIRST);
  const { data, error, isFetching, refetch } = useApiQuery(SubscriptionHistoryDocument, { id, last });
  const log = data?.data.events;
  const more = log?.totalCount && log.totalCount.value > log.nodes.length && last < MOST;
  return (
    <Panel
      title="History"
      actions={
        <Button
          variant="subtle"
          size="compact-xs"
          renderRoot={(props) => <Link {...props} to="/events" search={{ executions: id, from: "beginning" }} />}
        >
          All events
        </Button>
      }
    >
      {error && <Failure error={error} retry={refetch} />}
      {!data && !error && <Loading />}
      <PartialData unavailableShards={log?.unavailableShards ?? []} errors={data?.errors ?? []} />
      {log && <Changes events={log.nodes.toReversed()} />}
      {log?.totalCount && more && (
        <Button variant="default" size="xs" mt="sm" loading={isFetching} onClick={() => setLast(MOST)}>
          Show earlier changes ({formatCount(log.totalCount)} in all)
        </Button>
      )}
    </Panel>
  );
}

/** Changes, newest first. */
function Changes({ events }: { events: readonly LifecycleEvent[] }) {
  return (
    <Timeline bulletSize={12} lineWidth={2} active={-1} className={classes.timeline!}>
      {events.map((event, place) => (
        <Timeline.Item key={event.id} bullet={<span className={classes.bullet} data-tone={toneOf(event.status ?? "")} />}>
          <Change event={event} next={events[place - 1]} />
        </Timeline.Item>
      ))}
    </Timeline>
  );
}

function Change({ event, next }: { event: LifecycleEvent; next: LifecycleEvent | undefined }) {
  const reason = textOf(event.context, "reason");
  const actor = textOf(event.meta, "actor");
  const seconds = next ? (Date.parse(next.createdAt) - Date.parse(event.createdAt)) / 1_000 : null;
  return (
    <>
      <Text size="sm" fw={600}>
        {inWords(event.type.replace(/^subscription\./, ""))}
        {seconds !== null && (
          <Text span size="xs" fw={400} c="dimmed">
            {" "}
            for {formatDuration(seconds)}
          </Text>
        )}
      </Text>
      <Text size="xs" c="dimmed" component="div" className={classes.time!}>
        <Time value={event.createdAt} absolute />
        {actor !== null && <> by {actor}</>}
      </Text>
      {reason !== null && (
        <Text size="sm" className={classes.reason!}>
          {reason}
        </Text>
      )}
    </>
  );
}

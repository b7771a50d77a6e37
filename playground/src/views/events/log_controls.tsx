/** State of the stream in words, its counters, its rate, and the pause. */

import { Button, Text } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { memo } from "react";

import { useNow } from "../../ui/clock";
import { formatCount, formatNumber } from "../../ui/format";
import { RateChart } from "../../ui/rate_chart";
import { StatusBadge } from "../../ui/status_badge";
import type { Tone } from "../../ui/tone";
import type { EventLog, LogSnapshot, StoredEvents } from "./event_log";
import classes from "./log_controls.module.css";

const STATES: Record<LogSnapshot["state"], { label: string; tone: Tone }> = {
  connecting: { label: "Connecting…", tone: "waiting" },
  live: { label: "Live", tone: "good" },
  reconnecting: { label: "Reconnecting…", tone: "bad" },
  ended: { label: "Stopped", tone: "bad" },
};

interface Props {
  log: EventLog;
  snapshot: LogSnapshot;
}

export function LogControls({ log, snapshot }: Props) {
  const { label, tone } = snapshot.paused ? { label: "Paused", tone: "waiting" as const } : STATES[snapshot.state];
  return (
    <div className={classes.controls}>
      {snapshot.paused ? (
        <Button size="xs" onClick={() => log.resume()} leftSection={<IconPlayerPlay size={14} />}>
          Resume{snapshot.waiting > 0 && ` (${formatNumber(snapshot.waiting)} waiting)`}
        </Button>
      ) : (
        <Button size="xs" variant="default" onClick={() => log.pause()} leftSection={<IconPlayerPause size={14} />}>
          Pause
        </Button>
      )}
      {snapshot.stored?.more && (
        <Button size="xs" variant="default" loading={snapshot.stored.reading} onClick={() => void log.loadEarlier()}>
          Load earlier
        </Button>
      )}
      <div role="status" aria-label="Stream" className={classes.state}>
        <StatusBadge status={label} label={label} tone={tone} />
      </div>
      <Text size="xs" c="dimmed" className={classes.counts}>
        {snapshot.stored && `${storedInWords(snapshot.stored)}, `}
        <span data-testid="received">{formatNumber(snapshot.received)}</span> {snapshot.received === 1 ? "event" : "events"} received
        {snapshot.lag !== null && snapshot.lag !== "0" && `, ${formatNumber(snapshot.lag)} behind`}
        {snapshot.dropped > 0 && `, the oldest ${formatNumber(snapshot.dropped)} left the page`}
      </Text>
      <Rate log={log} />
    </div>
  );
}

function storedInWords({ loaded, total }: StoredEvents): string {
  const of = total && total.value > loaded ? ` of ${formatCount(total)}` : "";
  return `${formatNumber(loaded)}${of} stored`;
}

/** Draws once per second, not with each change of the log: a chart is expensive. */
const Rate = memo(function Rate({ log }: { log: EventLog }) {
  useNow();
  const points = log.rates.points();
  return (
    <div className={classes.rate}>
      <Text size="xs" c="dimmed" className={classes.counts}>
        {formatNumber(points.at(-1)?.value ?? 0)}/s
      </Text>
      <div className={classes.chart}>
        <RateChart label="Events received per second" points={points} height={28} axes={false} />
      </div>
    </div>
  );
});

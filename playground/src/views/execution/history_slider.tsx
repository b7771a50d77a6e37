/** Slider through the log. The diagram, the steps and the status show the state after the chosen event. */

import { ActionIcon, Button, Group, Slider, Text } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";

import { useZone } from "../../ui/clock";
import { formatClock, formatNumber } from "../../ui/format";
import { Failure } from "../../ui/states";
import { eventAt, placedBy, placeOf, type PlacedEvent } from "./log_pages";
import type { Log } from "./log_reader";
import type { LogEventFragment } from "./operations.generated";
import classes from "./history_slider.module.css";

const SETTLE_MS = 120;

interface Props {
  log: Log;
  /** Id of the chosen event; undefined: the newest state. */
  at: string | undefined;
  /** The chosen event and its place in the log, counted from 0, as the server knows them; null until it does. */
  chosen: PlacedEvent<LogEventFragment> | null;
  onChange: (at: string | undefined) => void;
}

export function HistorySlider({ log: read, at, chosen, onChange }: Props) {
  const log = { ...read, part: placedBy(read.part, chosen) };
  const last = log.total - 1;
  const place = at === undefined ? last : (placeOf(log, at) ?? (chosen?.event.eventId === at ? chosen.place : -1));
  const [dragged, setDragged] = useState<number | null>(null);
  const index = dragged ?? place;
  // Only the last move chooses an event, and none after the slider is gone: reading an earlier part of the log takes time.
  const moves = useRef(0);
  useEffect(() => () => void (moves.current += 1), []);
  const settle = useDebouncedCallback(async (target: number, move: number) => {
    const event = eventAt(log, target) ?? (await log.loadPlace(target, chosen));
    if (move !== moves.current) {
      return;
    }
    setDragged(null);
    if (event || target >= last) {
      onChange(target >= last ? undefined : event?.eventId);
    }
  }, SETTLE_MS);
  function move(to: number) {
    const bounded = Math.min(last, Math.max(0, to));
    moves.current += 1;
    setDragged(bounded);
    settle(bounded, moves.current);
  }
  function showNewest() {
    moves.current += 1;
    setDragged(null);
    onChange(undefined);
  }
  if (log.total < 2) {
    return null;
  }
  const event = eventAt(log, index) ?? (dragged === null && chosen?.event.eventId === at ? chosen?.event : undefined);
  return (
    <section className={classes.history} aria-label="History">
      {log.error && <Failure error={log.error} retry={log.retry} />}
      <Group justify="space-between" gap="xs" mb={6}>
        <Text size="sm" fw={600}>
          History
        </Text>
        <Text size="xs" c={at === undefined ? "dimmed" : "inherit"} role="status" className={classes.moment}>
          <Place index={index} total={log.total} event={event} reading={dragged !== null && log.reading} />
        </Text>
      </Group>
      <Group gap="xs" wrap="nowrap">
        <ActionIcon variant="default" aria-label="Earlier event" disabled={index <= 0} onClick={() => move(index - 1)}>
          <IconChevronLeft size={14} />
        </ActionIcon>
        <Slider
          flex={1}
          size="sm"
          min={0}
          max={last}
          value={Math.max(0, index)}
          onChange={move}
          label={null}
          thumbLabel="Event of the history"
          thumbProps={{ "aria-valuetext": event ? inWords(event) : "" }}
        />
        <ActionIcon variant="default" aria-label="Later event" disabled={index >= last} onClick={() => move(index + 1)}>
          <IconChevronRight size={14} />
        </ActionIcon>
        <Button size="xs" variant={at === undefined ? "default" : "filled"} disabled={at === undefined} onClick={showNewest}>
          Newest
        </Button>
      </Group>
    </section>
  );
}

interface PlaceProps {
  index: number;
  total: number;
  event: LogEventFragment | undefined;
  reading: boolean;
}

function Place({ index, total, event, reading }: PlaceProps) {
  const zone = useZone();
  if (index < 0) {
    return "Unknown event";
  }
  const number = `Event ${formatNumber(index + 1)} of ${formatNumber(total)}`;
  if (event) {
    return `${number}: ${inWords(event)} at ${formatClock(event.createdAt, zone)}`;
  }
  return reading ? `${number}: earlier events are being read` : number;
}

function inWords({ type, nodeName }: LogEventFragment): string {
  return nodeName === null || nodeName.includes("/") ? type : `${type} of ${nodeName}`;
}

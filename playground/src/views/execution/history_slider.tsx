/** Slider through the log. The diagram, the steps and the status show the state after the chosen event. */

import { ActionIcon, Button, Group, Slider, Text } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { useDebouncedCallback } from "@mantine/hooks";
import { useState } from "react";

import { useZone } from "../../ui/clock";
import { formatClock } from "../../ui/format";
import type { LogSnapshot } from "./log_reader";
import type { LogEventFragment } from "./operations.generated";
import classes from "./history_slider.module.css";

const SETTLE_MS = 120;

interface Props {
  log: LogSnapshot;
  /** Id of the chosen event; undefined: the newest state. */
  at: string | undefined;
  onChange: (at: string | undefined) => void;
}

export function HistorySlider({ log: { events, cut }, at, onChange }: Props) {
  const zone = useZone();
  const last = events.length - 1;
  const chosen = at === undefined ? last : events.findIndex((event) => event.eventId === at);
  const [dragged, setDragged] = useState<number | null>(null);
  const index = dragged ?? chosen;
  const settle = useDebouncedCallback((place: number) => {
    setDragged(null);
    onChange(place >= last ? undefined : events[place]?.eventId);
  }, SETTLE_MS);
  function move(place: number) {
    const bounded = Math.min(last, Math.max(0, place));
    setDragged(bounded);
    settle(bounded);
  }
  if (events.length < 2) {
    return null;
  }
  const event = events[index];
  return (
    <section className={classes.history} aria-label="History">
      <Group justify="space-between" gap="xs" mb={6}>
        <Text size="sm" fw={600}>
          History
        </Text>
        <Text size="xs" c={at === undefined ? "dimmed" : "inherit"} role="status" className={classes.moment}>
          {event
            ? `Event ${index + 1} of ${events.length}: ${inWords(event)} at ${formatClock(event.createdAt, zone)}`
            : "Unknown event"}
          {cut && " (the log has more)"}
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
        <Button
          size="xs"
          variant={at === undefined ? "default" : "filled"}
          disabled={at === undefined}
          onClick={() => onChange(undefined)}
        >
          Newest
        </Button>
      </Group>
    </section>
  );
}

function inWords({ type, nodeName }: LogEventFragment): string {
  return nodeName === null || nodeName.includes("/") ? type : `${type} of ${nodeName}`;
}

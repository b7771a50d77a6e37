/** The shown part of a timeline in words, and buttons that change it. They have the effects of the keys + - 0 and arrows. */

import { ActionIcon, Button, Group, Text } from "@mantine/core";
import { IconChevronLeft, IconChevronRight, IconMinus, IconPlus } from "@tabler/icons-react";

import { useZone } from "../../ui/clock";
import { formatDuration } from "../../ui/format";
import type { Span } from "./timeline";
import { isWhole, timeText } from "./timeline_range";

interface Props {
  span: Span;
  whole: Span;
  /** Called with the key of a button. */
  onKey: (key: string) => void;
}

export function TimelineZoom({ span, whole, onKey }: Props) {
  const zone = useZone();
  const all = isWhole(span, whole);
  const [from, to] = [span.from, span.to].map((time) => timeText(time, whole, zone));
  const part = `${from} to ${to} (${formatDuration((span.to - span.from) / 1_000)})`;
  return (
    <Group gap="xs" mb="xs">
      <ActionIcon variant="default" aria-label="Zoom in" onClick={() => onKey("+")}>
        <IconPlus size={14} />
      </ActionIcon>
      <ActionIcon variant="default" aria-label="Zoom out" onClick={() => onKey("-")}>
        <IconMinus size={14} />
      </ActionIcon>
      <ActionIcon variant="default" aria-label="Earlier part" disabled={span.from <= whole.from} onClick={() => onKey("ArrowLeft")}>
        <IconChevronLeft size={14} />
      </ActionIcon>
      <ActionIcon variant="default" aria-label="Later part" disabled={span.to >= whole.to} onClick={() => onKey("ArrowRight")}>
        <IconChevronRight size={14} />
      </ActionIcon>
      <Button size="xs" variant="default" disabled={all} onClick={() => onKey("0")}>
        Whole time
      </Button>
      <Text size="xs" c="dimmed" role="status" aria-label="Shown time">
        {all ? "Whole time" : part}
      </Text>
      {all && (
        <Text size="xs" c="dimmed" visibleFrom="sm">
          Drag over the axis, or press + − 0 ← → on the timeline.
        </Text>
      )}
    </Group>
  );
}

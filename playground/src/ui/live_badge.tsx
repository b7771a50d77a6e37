/** State of a live list or object in words. */

import { Text } from "@mantine/core";

import type { LiveState } from "../api/live";
import { StatusBadge } from "./status_badge";
import type { Tone } from "./tone";

const STATES: Record<LiveState, { label: string; tone: Tone }> = {
  connecting: { label: "Connecting…", tone: "waiting" },
  live: { label: "Live", tone: "good" },
  reconnecting: { label: "Reconnecting…", tone: "bad" },
  ended: { label: "Not live", tone: "plain" },
};

interface Props {
  state: LiveState;
  /** Name of the state for screen readers. */
  name: string;
  paused?: boolean;
}

export function LiveBadge({ state, name, paused = false }: Props) {
  const { label, tone } = paused ? { label: "Paused", tone: "waiting" as const } : STATES[state];
  return (
    <Text span size="xs" role="status" aria-label={name}>
      <StatusBadge status={label} label={label} tone={tone} />
    </Text>
  );
}

/** State of the live connection, in words, and announced when it changes. */

import { useSyncExternalStore } from "react";

import { connectionState, subscribeConnection, type Connection } from "../api/socket";
import { StatusBadge } from "../ui/status_badge";
import type { Tone } from "../ui/tone";
import classes from "./connection_state.module.css";

const SHOWN: Record<Connection, { label: string; tone: Tone }> = {
  idle: { label: "No live data", tone: "plain" },
  connecting: { label: "Connecting…", tone: "waiting" },
  live: { label: "Live", tone: "good" },
  reconnecting: { label: "Reconnecting…", tone: "bad" },
};

export function ConnectionState() {
  const connection = useSyncExternalStore(subscribeConnection, connectionState);
  const { label, tone } = SHOWN[connection];
  return (
    <div role="status" aria-label="Live connection" className={classes.state}>
      <StatusBadge status={connection} label={label} tone={tone} />
    </div>
  );
}

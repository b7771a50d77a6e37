/** Rows of the log: events, and marks in plain words between them. */

import type { StreamGapReason } from "../../api/schema.generated";
import type { EventsTailSubscription } from "./operations.generated";

export type StreamItem = EventsTailSubscription["events"];
export type TailEvent = Extract<StreamItem, { __typename: "EventDelivery" }>["event"];
export type Gap = Extract<StreamItem, { __typename: "StreamGap" }>;

export interface EventRow {
  kind: "event";
  /** Position in the stream; null if the event was read from the database. */
  cursor: string | null;
  event: TailEvent;
}

export interface MarkRow {
  kind: "mark";
  tone: "plain" | "waiting" | "bad";
  at: string;
  text: string;
}

export type Row = EventRow | MarkRow;

const GAP_REASONS: Record<StreamGapReason, string> = {
  EPOCH_CHANGED: "The feed of the shard restarted after a loss of data. Its events in this list that come again are listed once.",
  RESET: "The start position belongs to another feed. The list continues with the first stored event of the shard.",
  RETENTION: "The stream no longer stores these events. The executions still have them.",
  SLOW_CONSUMER: "This page was too slow, and the stream no longer stores these events. The executions still have them.",
};

const LIVE = "The events below are live. Events that have left the stream are in their executions.";
const LIVE_AFTER_STORED = "The events above are stored, the events below are live.";

/**
 * Returns the row of an item; null for a heartbeat, which only moves the cursor. The list can begin with the stored events
 * of a log.
 */
export function rowOf(item: StreamItem, afterStored: boolean): Row | null {
  switch (item.__typename) {
    case "EventDelivery":
      return { kind: "event", cursor: item.cursor, event: item.event };
    case "CaughtUp":
      return mark("plain", item.at, afterStored ? LIVE_AFTER_STORED : LIVE);
    case "StreamGap":
      return mark("bad", item.at, gapText(item));
    case "StreamHeartbeat":
      return null;
  }
}

/** Returns whether the stream delivers earlier events of the shard again after the gap. */
export function comesAgain(gap: Gap): boolean {
  return gap.reason === "EPOCH_CHANGED" || gap.reason === "RESET";
}

export function mark(tone: MarkRow["tone"], at: string, text: string): MarkRow {
  return { kind: "mark", tone, at, text };
}

function gapText(gap: Gap): string {
  const positions = gap.from === gap.to ? `position ${gap.from}` : `positions ${gap.from} to ${gap.to}`;
  return `Gap on shard ${gap.shard}, ${positions}. ${GAP_REASONS[gap.reason]}`;
}

/** Returns the text of a row that the search reads, in lower case. */
export function searchText(row: Row): string {
  if (row.kind === "mark") {
    return row.text.toLowerCase();
  }
  const { type, executionId, eventId, nodeName, status, error } = row.event;
  return `${type} ${executionId} ${eventId} ${nodeName ?? ""} ${status ?? ""} ${error ?? ""}`.toLowerCase();
}

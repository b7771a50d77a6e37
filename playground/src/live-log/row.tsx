import { memo, useState } from "react";

import { faultMessage } from "../fault";
import { post } from "../transport";
import type { Row } from "./live_log";
import { EVENT_DETAILS, type LogEvent } from "./stream";

interface Props {
  item: Row["item"];
  onFollowExecution: (executionId: string) => void;
}

/** A row of the log. An item never changes, so its row is drawn only once. */
export const LogRow = memo(
  function LogRow({ item, onFollowExecution }: Props) {
    switch (item.__typename) {
      case "EventDelivery":
        return <EventRow event={item.event} onFollowExecution={onFollowExecution} />;
      case "CaughtUp":
        return <li className="live-log-mark">caught up at {clock(item.at)}</li>;
      case "StreamGap":
        return (
          <li className="live-log-gap">
            Gap on shard {item.shard}: {item.from} to {item.to} ({item.reason})
          </li>
        );
    }
  },
  (before, after) => before.item === after.item,
);

function EventRow({ event, onFollowExecution }: { event: LogEvent; onFollowExecution: (id: string) => void }) {
  const [details, setDetails] = useState<string | null>(null);

  async function toggle() {
    if (details !== null) {
      setDetails(null);
      return;
    }
    setDetails("Loading…");
    setDetails(await eventDetails(event));
  }

  return (
    <li className="live-log-event" data-tone={tone(event)}>
      <button type="button" className="live-log-summary" onClick={toggle} aria-expanded={details !== null}>
        <span className="live-log-type">{event.type}</span>
        <time dateTime={event.createdAt} title={event.createdAt}>{clock(event.createdAt)}</time>
        <span className="live-log-node">{event.nodeName}</span>
        <span className="live-log-event-status">{event.status}</span>
      </button>
      <button
        type="button"
        className="live-log-execution"
        onClick={() => onFollowExecution(event.executionId)}
        title="Follow only this execution, from its beginning"
      >
        {event.executionId} · shard {event.shard}
      </button>
      {event.error && <div className="live-log-error">{event.error}</div>}
      {details !== null && <pre className="live-log-details">{details}</pre>}
    </li>
  );
}

async function eventDetails(event: LogEvent): Promise<string> {
  try {
    const variables = { executionId: event.executionId, id: event.id };
    const result = await post({ query: EVENT_DETAILS, operationName: "EventDetails", variables });
    return JSON.stringify(result.data?.event ?? result.errors ?? "This event no longer exists.", null, 2);
  } catch (fault) {
    return faultMessage(fault);
  }
}

function clock(time: string): string {
  const at = new Date(time);
  return `${at.toLocaleTimeString(undefined, { hour12: false })}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

function tone(event: LogEvent): "bad" | "good" | "waiting" | "plain" {
  switch (event.status) {
    case "FAILED":
    case "CANCELLED":
      return "bad";
    case "ACTIVE":
    case "COMPLETED":
    case "STARTED":
      return "good";
    case "PAUSED":
    case "DRAINING":
    case "PENDING":
      return "waiting";
    default:
      return event.error ? "bad" : "plain";
  }
}

/** One row of the log: an event, or a mark in plain words. */

import { memo } from "react";

import { useZone } from "../../ui/clock";
import { formatClock, formatTime } from "../../ui/format";
import { StatusBadge } from "../../ui/status_badge";
import type { EventRow, MarkRow, Row } from "./rows";
import classes from "./log_row.module.css";

export const ROW_HEIGHT = 30;

interface Props {
  row: Row;
  /** Distance from the start of the list in pixels. */
  top: number;
  selected: string | undefined;
  onSelect: (id: string) => void;
}

export const LogRow = memo(function LogRow({ row, top, selected, onSelect }: Props) {
  return (
    <div role="listitem" className={classes.place} style={{ transform: `translateY(${top}px)`, height: ROW_HEIGHT }}>
      {row.kind === "event" ? (
        <EventButton row={row} selected={row.event.id === selected} onSelect={onSelect} />
      ) : (
        <Mark row={row} />
      )}
    </div>
  );
});

interface EventProps {
  row: EventRow;
  selected: boolean;
  onSelect: (id: string) => void;
}

function EventButton({ row: { event }, selected, onSelect }: EventProps) {
  const zone = useZone();
  return (
    <button type="button" className={classes.event} aria-current={selected} onClick={() => onSelect(event.id)}>
      <time dateTime={event.createdAt} title={formatTime(event.createdAt, zone)} className={classes.time}>
        {formatClock(event.createdAt, zone)}
      </time>
      <span className={classes.type}>{event.type}</span>
      <span>{event.status !== null && <StatusBadge status={event.status} />}</span>
      <span className={classes.node}>{event.nodeName}</span>
      <span className={classes.execution}>{event.executionId}</span>
      <span className={classes.error}>{event.error}</span>
    </button>
  );
}

function Mark({ row }: { row: MarkRow }) {
  const zone = useZone();
  return (
    <div className={classes.mark} data-tone={row.tone} title={row.text}>
      <time dateTime={row.at} className={classes.time}>
        {formatClock(row.at, zone)}
      </time>
      <span>{row.text}</span>
    </div>
  );
}

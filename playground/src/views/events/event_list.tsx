/**
 * The rows of the log, newest at the end; only the rows in the window are drawn. At the end, the list follows new rows.
 * Away from the end, it keeps its position, also while old rows leave the list or earlier ones are added.
 */

import { Button } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";
import { defaultRangeExtractor, useVirtualizer, type Range } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent } from "react";

import { Empty } from "../../ui/states";
import type { EventLog, LogSnapshot } from "./event_log";
import { LogRow, ROW_HEIGHT } from "./log_row";
import classes from "./event_list.module.css";

const NEAR_END = 2 * ROW_HEIGHT;

interface Props {
  log: EventLog;
  snapshot: LogSnapshot;
  selected: string | undefined;
  onSelect: (id: string) => void;
}

export function EventList({ log, snapshot, selected, onSelect }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(true);
  const list = useVirtualizer({
    count: snapshot.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_HEIGHT,
    getItemKey: (index) => log.numberAt(index),
    overscan: 12,
    rangeExtractor: (range) => (following ? lastRows(range, frame.current) : defaultRangeExtractor(range)),
  });
  useEndOrPosition(frame, snapshot, following);

  function scrolled() {
    const element = frame.current;
    if (element) {
      setFollowing(element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END);
    }
  }

  return (
    <div className={classes.list}>
      <div
        ref={frame}
        className={classes.frame}
        onScroll={scrolled}
        onKeyDown={(event) => moveFocus(event, frame.current)}
        role="list"
        aria-label="Events, newest last"
        tabIndex={0}
      >
        <div className={classes.rows} style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map((item) => {
            const row = log.rowAt(item.index);
            return row && <LogRow key={item.key} row={row} top={item.start} selected={selected} onSelect={onSelect} />;
          })}
        </div>
        {snapshot.length === 0 && <NoRows snapshot={snapshot} />}
      </div>
      {!following && !snapshot.paused && (
        <Button size="xs" className={classes.follow!} leftSection={<IconArrowDown size={14} />} onClick={() => setFollowing(true)}>
          Follow new events
        </Button>
      )}
    </div>
  );
}

/** Returns the rows at the end. The browser reports the scrolled position later, when many more rows may have arrived. */
function lastRows({ count }: Range, frame: HTMLDivElement | null): number[] {
  const drawn = Math.min(count, Math.ceil((frame?.clientHeight ?? 0) / ROW_HEIGHT) + 2);
  return Array.from({ length: drawn }, (_, index) => count - drawn + index);
}

/** Keeps the list at its end, or at the rows that the user reads. */
function useEndOrPosition(frame: React.RefObject<HTMLDivElement | null>, snapshot: LogSnapshot, following: boolean) {
  const dropped = useRef(snapshot.dropped);
  useLayoutEffect(() => {
    const element = frame.current;
    const left = snapshot.dropped - dropped.current;
    dropped.current = snapshot.dropped;
    if (element && following) {
      element.scrollTop = element.scrollHeight;
    } else if (element && left !== 0) {
      element.scrollTop -= left * ROW_HEIGHT;
    }
  }, [frame, snapshot, following]);
  useEffect(() => {
    if (following && frame.current) {
      frame.current.scrollTop = frame.current.scrollHeight;
    }
  }, [frame, following]);
}

/** Moves the focus between the events with the arrow keys. */
function moveFocus(event: KeyboardEvent, frame: HTMLDivElement | null): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || !frame) {
    return;
  }
  const buttons = [...frame.querySelectorAll("button")].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
  const next = buttons[buttons.indexOf(document.activeElement as HTMLButtonElement) + step];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

function NoRows({ snapshot }: { snapshot: LogSnapshot }) {
  if (snapshot.state !== "live") {
    return snapshot.state === "ended" ? null : <Empty title="Waiting for the connection" />;
  }
  return (
    <Empty title="No events yet">
      New events appear here as they commit. To see earlier ones, choose another start. If a filter or a search is set, it may
      hide them.
    </Empty>
  );
}

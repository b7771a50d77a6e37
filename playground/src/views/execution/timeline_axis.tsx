/** The axis of a timeline. A drag over it chooses a part of the time. */

import { useState, type PointerEvent } from "react";

import { useZone } from "../../ui/clock";
import { formatDuration } from "../../ui/format";
import type { Span } from "./timeline";
import { between, isWhole, timeText } from "./timeline_range";
import classes from "./timeline_view.module.css";

const TICKS = 4;
/** A shorter drag is a click. */
const SHORTEST_DRAG_PX = 4;

interface Props {
  span: Span;
  whole: Span;
  onChoose: (span: Span) => void;
}

/** The places of a drag as shares of the axis. */
interface Drag {
  from: number;
  to: number;
}

export function TimelineAxis({ span, whole, onChoose }: Props) {
  const zone = useZone();
  const [drag, setDrag] = useState<Drag | null>(null);
  const begin = (event: PointerEvent<HTMLDivElement>) => {
    if (event.button === 0) {
      event.currentTarget.setPointerCapture(event.pointerId);
      setDrag({ from: shareAt(event), to: shareAt(event) });
    }
  };
  const end = (event: PointerEvent<HTMLDivElement>) => {
    const to = shareAt(event);
    if (drag && Math.abs(to - drag.from) * event.currentTarget.clientWidth >= SHORTEST_DRAG_PX) {
      onChoose(between(drag.from, to, span, whole));
    }
    setDrag(null);
  };
  const ticks = Array.from({ length: TICKS + 1 }, (_, tick) => ((span.to - span.from) * tick) / TICKS);
  const labels = isWhole(span, whole)
    ? ticks.map((after) => (after === 0 ? "Start" : formatDuration(after / 1_000)))
    : ticks.map((after) => timeText(span.from + after, whole, zone));
  return (
    <>
      <div
        className={classes.axis}
        aria-hidden="true"
        title="Drag over the axis to show a part of the time"
        onPointerDown={begin}
        onPointerMove={(event) => drag && setDrag({ ...drag, to: shareAt(event) })}
        onPointerUp={end}
        onPointerCancel={() => setDrag(null)}
      >
        {labels.map((label, tick) => (
          <span key={tick}>{label}</span>
        ))}
      </div>
      {drag && (
        <div className={classes.plot} aria-hidden="true">
          <div
            className={classes.selection}
            style={{ left: `${Math.min(drag.from, drag.to) * 100}%`, width: `${Math.abs(drag.to - drag.from) * 100}%` }}
          />
        </div>
      )}
    </>
  );
}

function shareAt({ clientX, currentTarget }: PointerEvent<HTMLDivElement>): number {
  const { left, width } = currentTarget.getBoundingClientRect();
  return Math.min(1, Math.max(0, (clientX - left) / width));
}

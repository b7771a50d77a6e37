/** The steps as bars over time. Waiting, running, failed attempts and iterations are visible, and described in words. */

import { Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, type KeyboardEvent } from "react";

import { formatDuration, formatItems } from "../../ui/format";
import { useKnownUntil } from "../../ui/known_until";
import { Empty } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import type { Execution } from "./live_execution";
import type { LogEventFragment } from "./operations.generated";
import { StepLanes } from "./step_lanes";
import { failuresInWords, toneOfStep } from "./step_words";
import { barsOf, isWithin, share, wholeTime, type Span, type StepBars } from "./timeline";
import { TimelineAxis } from "./timeline_axis";
import { afterKey, isWhole, rangeText, readRange } from "./timeline_range";
import { TimelineZoom } from "./timeline_zoom";
import classes from "./timeline_view.module.css";

const route = getRouteApi("/executions/$id");

interface Props {
  execution: Execution;
  events: readonly LogEventFragment[];
  /** Time of the moment that the slider shows; undefined: the newest state. */
  moment: string | undefined;
}

export function TimelineView({ execution, events, moment }: Props) {
  const now = useKnownUntil();
  const { range } = route.useSearch();
  const navigate = route.useNavigate();
  const steps = execution.steps?.nodes;
  const bars = useMemo(() => barsOf(steps ?? [], events), [steps, events]);
  if (bars.length === 0 || execution.startedAt === null) {
    return <Empty title="No step has begun">Bars appear here when a worker begins the first step.</Empty>;
  }
  const whole = wholeTime(bars, execution.startedAt, execution.endedAt, now);
  const span = readRange(range, whole);
  const choose = (chosen: Span) =>
    void navigate({
      search: (before) => ({ ...before, range: rangeText(chosen, whole) }),
      replace: true,
      resetScroll: false,
    });
  const onKey = (key: string) => {
    const chosen = afterKey(key, span, whole);
    if (chosen) {
      choose(chosen);
    }
    return chosen !== undefined;
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && onKey(event.key)) {
      event.preventDefault();
    }
  };
  const at = moment === undefined ? null : Date.parse(moment);
  return (
    <div onKeyDown={onKeyDown}>
      <TimelineZoom span={span} whole={whole} onKey={onKey} />
      <div className={classes.frame} role="region" aria-label="Timeline of the steps" tabIndex={0}>
        <div className={classes.chart}>
          <TimelineAxis span={span} whole={whole} onChoose={choose} />
          <ol className={classes.steps}>
            {bars.map((bar) => (
              <Row key={bar.step.name} bar={bar} span={span} until={whole.to} />
            ))}
          </ol>
          {at !== null && (isWhole(span, whole) || isWithin(at, at, span)) && (
            <div className={classes.plot} aria-hidden="true">
              <div className={classes.moment} style={{ left: `${share(at, span)}%` }} />
            </div>
          )}
        </div>
        <Legend />
      </div>
    </div>
  );
}

/** A step; `until` is the end of what has not ended. */
function Row({ bar, span, until }: { bar: StepBars; span: Span; until: number }) {
  const { step } = bar;
  return (
    <li className={classes.row}>
      <div className={classes.name}>
        <StatusBadge status={step.status} label={step.name} tone={toneOfStep(step)} />
        <Text span size="xs" c="dimmed">
          {inWords(bar, until)}
        </Text>
      </div>
      <StepLanes bar={bar} span={span} until={until} />
    </li>
  );
}

function inWords({ step, entered, ended, lanes }: StepBars, until: number): string {
  if (step.status === "SKIPPED") {
    return "skipped";
  }
  const parts = [formatDuration(((ended ?? until) - entered) / 1_000)];
  if (step.iterations) {
    parts.push(`${step.iterations.completed} of ${formatItems(step.iterations.expected, "iteration")}`);
  }
  const failures = failuresInWords(step);
  if (failures !== null) {
    parts.push(failures);
  }
  if (step.attempt > 1) {
    parts.push(`${step.attempt} attempts`);
  }
  const waited = lanes.flat().reduce((sum, { issued, started, ended: end }) => sum + (started ?? end ?? until) - issued, 0);
  if (waited > 0) {
    parts.push(`${formatDuration(waited / 1_000)} waiting`);
  }
  return parts.join(", ");
}

function Legend() {
  return (
    <div className={classes.legend} aria-hidden="true">
      {["Step", "Instant", "Waiting for a worker", "Running", "Done", "Failed"].map((kind) => (
        <span key={kind} data-kind={kind.split(" ")[0]!.toLowerCase()}>
          {kind}
        </span>
      ))}
    </div>
  );
}

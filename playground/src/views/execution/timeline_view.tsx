/** The steps as bars over time. Waiting, running, failed attempts and iterations are visible, and described in words. */

import { Text } from "@mantine/core";
import { useMemo } from "react";

import { formatDuration, formatItems } from "../../ui/format";
import { useKnownUntil } from "../../ui/known_until";
import { Empty } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import type { Execution } from "./live_execution";
import type { LogEventFragment } from "./operations.generated";
import { StepLanes } from "./step_lanes";
import { failuresInWords, toneOfStep } from "./step_words";
import { barsOf, share, type Span, type StepBars } from "./timeline";
import classes from "./timeline_view.module.css";

const TICKS = 4;

interface Props {
  execution: Execution;
  events: readonly LogEventFragment[];
  /** Time of the moment that the slider shows; undefined: the newest state. */
  moment: string | undefined;
}

export function TimelineView({ execution, events, moment }: Props) {
  const now = useKnownUntil();
  const steps = execution.steps?.nodes;
  const bars = useMemo(() => barsOf(steps ?? [], events), [steps, events]);
  if (bars.length === 0 || execution.startedAt === null) {
    return <Empty title="No step has begun">Bars appear here when a worker begins the first step.</Empty>;
  }
  const from = Date.parse(execution.startedAt);
  const last = execution.endedAt === null ? now : Date.parse(execution.endedAt);
  const span = { from, to: Math.max(last, from + 1, ...bars.map(({ ended }) => ended ?? 0)) };
  return (
    <div className={classes.frame} role="region" aria-label="Timeline of the steps" tabIndex={0}>
      <div className={classes.chart}>
        <Axis span={span} />
        <ol className={classes.steps}>
          {bars.map((bar) => (
            <Row key={bar.step.name} bar={bar} span={span} />
          ))}
        </ol>
        {moment !== undefined && (
          <div className={classes.plot} aria-hidden="true">
            <div className={classes.moment} style={{ left: `${share(Date.parse(moment), span)}%` }} />
          </div>
        )}
      </div>
      <Legend />
    </div>
  );
}

function Axis({ span }: { span: Span }) {
  const seconds = (span.to - span.from) / 1_000;
  return (
    <div className={classes.axis} aria-hidden="true">
      {Array.from({ length: TICKS + 1 }, (_, tick) => (
        <span key={tick}>{tick === 0 ? "Start" : formatDuration((seconds * tick) / TICKS)}</span>
      ))}
    </div>
  );
}

function Row({ bar, span }: { bar: StepBars; span: Span }) {
  const { step } = bar;
  return (
    <li className={classes.row}>
      <div className={classes.name}>
        <StatusBadge status={step.status} label={step.name} tone={toneOfStep(step)} />
        <Text span size="xs" c="dimmed">
          {inWords(bar, span)}
        </Text>
      </div>
      <StepLanes bar={bar} span={span} />
    </li>
  );
}

function inWords({ step, entered, ended, lanes }: StepBars, span: Span): string {
  if (step.status === "SKIPPED") {
    return "skipped";
  }
  const parts = [formatDuration(((ended ?? span.to) - entered) / 1_000)];
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
  const waited = lanes.flat().reduce((sum, { issued, started, ended: end }) => sum + (started ?? end ?? span.to) - issued, 0);
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

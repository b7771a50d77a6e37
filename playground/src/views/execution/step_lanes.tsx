/** The bar of one step, and in it the bars of its commands, as far as they are in the shown time. */

import { Text } from "@mantine/core";

import { formatDuration } from "../../ui/format";
import { isWithin, share, type Command, type Span, type StepBars } from "./timeline";
import classes from "./timeline_view.module.css";

const MAX_LANES = 12;

interface Props {
  bar: StepBars;
  span: Span;
  /** End of what has not ended. */
  until: number;
}

export function StepLanes({ bar, span, until }: Props) {
  const end = bar.ended ?? until;
  const isShown = ({ issued, ended }: Command) => isWithin(issued, ended ?? until, span);
  const lanes = bar.lanes.map((lane) => lane.filter(isShown)).filter((lane) => lane.length > 0);
  const hidden = lanes.length - MAX_LANES;
  return (
    <div className={classes.lanes}>
      {isWithin(bar.entered, end, span) && <StepBar name={bar.step.name} from={bar.entered} to={end} span={span} />}
      {lanes.length === 0 && <div className={classes.lane} />}
      {lanes.slice(0, MAX_LANES).map((lane, number) => (
        <div key={number} className={classes.lane}>
          {lane.map((command, index) => (
            <CommandBar key={index} command={command} span={span} until={until} />
          ))}
        </div>
      ))}
      {hidden > 0 && (
        <Text size="xs" c="dimmed" pos="relative">
          {hidden} more at the same time
        </Text>
      )}
    </div>
  );
}

/** A bar; a mark if it lasted less than a millisecond, because such a bar has no width. */
function StepBar({ name, from, to, span }: { name: string; from: number; to: number; span: Span }) {
  const title = `${name}, ${lasted(from, to)}`;
  return to - from < 1 ? (
    <div className={classes.instant} style={{ left: `clamp(7px, ${share(from, span)}%, 100% - 7px)` }} title={title} />
  ) : (
    <div className={classes.step} style={place(from, to, span)} title={title} />
  );
}

function CommandBar({ command, span, until }: { command: Command; span: Span; until: number }) {
  const { issued, started, ended, failed } = command;
  const begun = started ?? ended;
  const attempt = command.attempt !== null && command.attempt > 1 ? `, attempt ${command.attempt}` : "";
  const end = ended ?? until;
  const kind = failed ? "failed" : ended === null ? "running" : "done";
  return (
    <>
      {isWithin(issued, begun ?? until, span) && (
        <div
          className={classes.bar}
          data-kind="waiting"
          style={place(issued, begun ?? until, span)}
          title={`Waited ${lasted(issued, begun ?? until)}${attempt}`}
        />
      )}
      {begun !== null && isWithin(begun, end, span) && (
        <div
          className={classes.bar}
          data-kind={kind}
          style={place(begun, end, span)}
          title={`${kind === "failed" ? "Failed after" : "Ran"} ${lasted(begun, end)}${attempt}`}
        />
      )}
    </>
  );
}

function place(from: number, to: number, span: Span) {
  return { left: `${share(from, span)}%`, width: `${Math.max(0, share(to, span) - share(from, span))}%` };
}

function lasted(from: number, to: number): string {
  return formatDuration(Math.max(0, to - from) / 1_000);
}

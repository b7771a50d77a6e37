/**
 * Bars of the executions that ended in each interval, with those that failed at the bottom, and a line at the number of
 * those that started. One bar is in the order of the Tab key; the arrow keys lead to the others.
 */

import { Link } from "@tanstack/react-router";
import { useState, type KeyboardEvent } from "react";

import { useZone, type Zone } from "../../ui/clock";
import { formatNumber, formatShortNumber } from "../../ui/format";
import { endedOf, executionsOf, inWords, isEmpty, nameOf, sumOf, type Bucket } from "./bars";
import classes from "./chart.module.css";
import { Explanation } from "./explanation";

/** Maximum number of times below the bars. */
const TICKS = 8;

interface Props {
  label: string;
  buckets: readonly Bucket[];
  /** Path of the executions; undefined: all. */
  path: string | undefined;
}

export function HistoryChart({ label, buckets, path }: Props) {
  const zone = useZone();
  const [shown, setShown] = useState<string>();
  const [focused, setFocused] = useState<string>();
  const highest = Math.max(...buckets.map((bucket) => Math.max(endedOf(bucket), bucket.started)));
  const linked = buckets.filter((bucket) => !isEmpty(bucket));
  const tabStop = linked.find(({ from }) => from === focused) ?? linked.at(-1);
  const step = Math.ceil(buckets.length / TICKS);
  const explained = buckets.find(({ from }) => from === shown);
  return (
    <figure className={classes.figure} aria-label={label}>
      <div className={classes.highest} aria-hidden="true">
        {formatShortNumber(highest)}
      </div>
      <ol
        className={classes.bars}
        aria-label={`${label}, a bar for each interval`}
        onKeyDown={moveFocus}
        onBlur={() => setShown(undefined)}
        onMouseLeave={() => setShown(undefined)}
      >
        {buckets.map((bucket, index) => (
          <li
            key={bucket.from}
            className={classes.bar}
            data-shown={bucket === explained}
            onMouseEnter={() => setShown(bucket.from)}
            onFocus={() => {
              setShown(bucket.from);
              setFocused(bucket.from);
            }}
          >
            <Bar bucket={bucket} highest={highest} path={path} zone={zone} isTabStop={bucket === tabStop} />
            {index % step === 0 && index + step <= buckets.length && (
              <span className={classes.tick} aria-hidden="true">
                {nameOf(bucket, zone).slice(-5)}
              </span>
            )}
          </li>
        ))}
      </ol>
      {explained ? (
        <Explanation name={nameOf(explained, zone)} numbers={explained} bucket={explained} />
      ) : (
        <Explanation name="In all" numbers={sumOf(buckets)} />
      )}
    </figure>
  );
}

interface BarProps {
  bucket: Bucket;
  highest: number;
  path: string | undefined;
  zone: Zone;
  isTabStop: boolean;
}

function Bar({ bucket, highest, path, zone, isTabStop }: BarProps) {
  if (isEmpty(bucket)) {
    return null;
  }
  const share = (count: number) => `${(100 * count) / highest}%`;
  const { completed, failed, cancelled, started } = bucket;
  const all = endedOf(bucket) > 0 ? executionsOf(bucket, path) : executionsOf(bucket, path, "started");
  return (
    <>
      <Link
        to="/executions"
        search={all}
        className={classes.whole}
        aria-label={inWords(bucket, zone)}
        tabIndex={isTabStop ? 0 : -1}
      />
      <div className={classes.parts}>
        {failed > 0 && (
          <Link
            to="/executions"
            search={executionsOf(bucket, path, "failed")}
            className={classes.failed}
            style={{ height: share(failed) }}
            aria-label={`${nameOf(bucket, zone)}, ${formatNumber(failed)} failed`}
            tabIndex={-1}
          />
        )}
        {completed > 0 && <div className={classes.completed} style={{ height: share(completed) }} />}
        {cancelled > 0 && <div className={classes.cancelled} style={{ height: share(cancelled) }} />}
      </div>
      {started > 0 && <div className={classes.started} style={{ bottom: share(started) }} />}
    </>
  );
}

/** Moves the focus between the bars and their failed parts, from left to right. */
function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const links = [...event.currentTarget.querySelectorAll("a")];
  const place = links.findIndex((link) => link === event.target);
  const places: Record<string, number> = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: links.length - 1 };
  const next = links[places[event.key] ?? -1];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

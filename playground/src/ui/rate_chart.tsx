/** A line over time, drawn on a canvas, with its newest, lowest and highest value as text for screen readers. */

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { useZone, type Zone } from "./clock";
import { formatClock, formatShortNumber } from "./format";
import classes from "./rate_chart.module.css";

export interface Point {
  /** Time in seconds since 1970. */
  at: number;
  value: number | null;
}

interface Props {
  /** Meaning of the line, with its unit. */
  label: string;
  points: readonly Point[];
  height?: number;
  /** Whether the chart has axes (default true). Without them it is a sparkline. */
  axes?: boolean;
}

/** Shortest time that a chart with axes shows, in seconds. */
const SHORTEST = 300;
/** Attribute of the document that names the theme. */
const THEME_ATTRIBUTE = "data-mantine-color-scheme";

export function RateChart({ label, points, height = 160, axes = true }: Props) {
  // The time axis of a single point would cover years.
  const empty = points.length < 2 || points.every(({ value }) => value === null);
  return (
    <figure className={classes.figure} role="img" aria-label={inWords(label, points)}>
      {empty ? (
        <p className={classes.empty} style={{ height }} aria-hidden="true">
          {axes && "No values yet"}
        </p>
      ) : (
        <Plot points={points} height={height} axes={axes} />
      )}
    </figure>
  );
}

function Plot({ points, height, axes }: Required<Pick<Props, "points" | "height" | "axes">>) {
  const zone = useZone();
  const frame = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(null);
  const data = useRef<uPlot.AlignedData>([[], []]);
  data.current = [points.map((point) => point.at), points.map((point) => point.value)];

  useEffect(() => {
    const element = frame.current;
    if (!element) {
      return;
    }
    const plot = new uPlot({ ...options(axes, zone), width: element.clientWidth, height }, data.current, element);
    chart.current = plot;
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const themed = new MutationObserver(() => plot.redraw());
    themed.observe(document.documentElement, { attributeFilter: [THEME_ATTRIBUTE] });
    return () => {
      resized.disconnect();
      themed.disconnect();
      plot.destroy();
    };
  }, [axes, height, zone]);

  useEffect(() => chart.current?.setData(data.current), [points]);

  return <div ref={frame} aria-hidden="true" className={classes.frame} />;
}

function options(axes: boolean, zone: Zone): Omit<uPlot.Options, "width" | "height"> {
  const text = () => color("--mantine-color-dimmed");
  const grid = { stroke: () => color("--noetl-line"), width: 1 };
  return {
    legend: { show: false },
    cursor: { show: false },
    padding: axes ? [8, 8, 0, 0] : [2, 0, 2, 0],
    scales: {
      x: { range: (_, first, last) => timeRange(axes, first, last) },
      y: { range: (_, __, highest) => [0, Math.max(1, (highest ?? 0) * 1.15)] },
    },
    axes: [
      {
        show: axes,
        stroke: text,
        grid: { show: false },
        ticks: grid,
        size: 28,
        space: 80,
        values: (_, times) => times.map((time) => formatClock(time * 1_000, zone).slice(0, 8)),
      },
      { show: axes, stroke: text, grid, ticks: { show: false }, size: 44, values: (_, values) => values.map(formatShortNumber) },
    ],
    series: [
      {},
      {
        stroke: () => color("--noetl-chart"),
        fill: () => color("--noetl-chart-area"),
        width: 1.5,
        points: { show: false },
      },
    ],
  };
}

/** Returns the times that a chart shows. */
function timeRange(axes: boolean, first: number | null, last: number | null): uPlot.Range.MinMax {
  if (first === null || last === null) {
    return [null, null];
  }
  return [axes ? Math.min(first, last - SHORTEST) : first, last];
}

/** Returns a colour of the theme. The canvas reads it at each drawing, and is drawn again when the theme changes. */
function color(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

function inWords(label: string, points: readonly Point[]): string {
  const values = points.map((point) => point.value).filter((value) => value !== null);
  const newest = values.at(-1);
  if (newest === undefined) {
    return `${label}: no values yet`;
  }
  const text = (value: number) => formatShortNumber(value);
  const range = `lowest ${text(Math.min(...values))}, highest ${text(Math.max(...values))}`;
  return `${label}: ${text(newest)}; ${range}`;
}

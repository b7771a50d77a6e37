/** Numbers and times as text. */

import type { Zone } from "./clock";

const NUMBER = new Intl.NumberFormat("en");
const SHORT_NUMBER = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;

/** Returns a whole number with separators, such as `12,345`. */
export function formatNumber(value: number | string): string {
  return NUMBER.format(Number(value));
}

/** Returns a number of items, which may have been counted only up to a limit, such as `≥ 10,000`. */
export function formatCount({ value, capped }: { value: number; capped: boolean }): string {
  return `${capped ? "≥ " : ""}${formatNumber(value)}`;
}

/** Returns a number with its noun, such as `1 event` or `12,345 events`. */
export function formatItems(count: number | string, noun: string): string {
  return `${formatNumber(count)} ${noun}${Number(count) === 1 ? "" : "s"}`;
}

/** Returns a number of few letters, such as `12.3K`. */
export function formatShortNumber(value: number): string {
  return SHORT_NUMBER.format(value);
}

/** Returns a rate with one digit after the point below 100, such as `4.2`. */
export function formatRate(perSecond: number): string {
  return perSecond >= 100 ? formatNumber(Math.round(perSecond)) : perSecond.toFixed(1);
}

/** Returns a number of bytes in a binary unit, such as `4 MiB`. */
export function formatBytes(bytes: number | string): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, Number(bytes))) / 10));
  return `${formatNumber(Math.round((Number(bytes) / 1024 ** step) * 10) / 10)} ${units[step]}`;
}

/** Returns a round-trip time, such as `1.5 ms`. */
export function formatLatency(milliseconds: number): string {
  return milliseconds < 0.1 ? "< 0.1 ms" : `${milliseconds.toFixed(1)} ms`;
}

/** Returns a duration in its two largest units, such as `2 min 5 s`. */
export function formatDuration(seconds: number): string {
  if (seconds < 1) {
    return `${Math.round(seconds * 1_000)} ms`;
  }
  if (seconds < MINUTE) {
    return `${seconds < 10 ? seconds.toFixed(1).replace(/\.0$/, "") : Math.floor(seconds)} s`;
  }
  if (seconds < HOUR) {
    return twoUnits(seconds, MINUTE, "min", 1, "s");
  }
  return seconds < DAY ? twoUnits(seconds, HOUR, "h", MINUTE, "min") : twoUnits(seconds, DAY, "d", HOUR, "h");
}

function twoUnits(seconds: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeName}${rest > 0 ? ` ${rest} ${smallName}` : ""}`;
}

/** Returns a time relative to now, such as `5 s ago` or `in 2 min 5 s`. From ten on, the smaller unit is left out. */
export function formatRelative(time: number, now: number): string {
  const seconds = (now - time) / 1_000;
  if (Math.abs(seconds) < 1) {
    return "now";
  }
  const whole = Math.round(Math.abs(seconds));
  const length = formatDuration(whole).replace(/^(\d{2,} \S+) .*$/, "$1");
  return seconds > 0 ? `${length} ago` : `in ${length}`;
}

/** Returns date and time with milliseconds in a zone, such as `2026-03-01 09:30:00.125`. */
export function formatTime(time: string | number, zone: Zone): string {
  const at = new Date(time);
  if (zone === "utc") {
    return at.toISOString().replace("T", " ").replace("Z", " UTC");
  }
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${formatClock(time, zone)}`;
}

/** Returns the time of day with milliseconds in a zone. */
export function formatClock(time: string | number, zone: Zone): string {
  const at = new Date(time);
  if (zone === "utc") {
    return at.toISOString().slice(11, 23);
  }
  const milliseconds = String(at.getMilliseconds()).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${milliseconds}`;
}

/** Returns a time in the form of a date and time field, such as `2026-03-01T09:30:00`, in a zone. */
export function formatLocalInput(time: string, zone: Zone): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) {
    return "";
  }
  const shift = zone === "utc" ? 0 : at.getTimezoneOffset() * MINUTE * 1_000;
  return new Date(at.getTime() - shift).toISOString().slice(0, 19);
}

/** Returns the time of a date and time field as an RFC 3339 string; null if the field is not filled in. */
export function parseLocalInput(text: string, zone: Zone): string | null {
  const at = new Date(zone === "utc" ? `${text}Z` : text);
  return text === "" || Number.isNaN(at.getTime()) ? null : at.toISOString();
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** Targets that a text of the command palette names by itself, without a request: labels, first digits, a version, a time. */

import type { NavigateOptions } from "@tanstack/react-router";

import type { Zone } from "../ui/clock";
import { labelText, readLabels, type WrittenLabel } from "../ui/labels";

export const LABEL_WITH_VALUE = /^[a-z0-9][a-z0-9._/-]*\s*=\s*\S/;
const FIRST_DIGITS = /^\d{6,19}$/;
/** A version as the console writes it. */
const VERSION = /^(\S.*?),? version (\d{1,5})$/i;
/** A day, a minute or a second as the console writes it. Milliseconds are left out. */
const TIME = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?(?:\.\d+)?)?( ?UTC|Z)?$/i;
const [SECOND_MS, MINUTE_MS, DAY_MS] = [1_000, 60_000, 86_400_000];

export interface Target {
  key: string;
  label: string;
  description: string;
  location: NavigateOptions;
}

/** Labels that are written with their values, such as `order_id=17`. */
export function writtenLabelTargets(query: string): Target[] {
  return LABEL_WITH_VALUE.test(query) ? [labelTarget(readLabels(query))] : [];
}

export function labelTarget(labels: readonly WrittenLabel[]): Target {
  const text = labels.map(labelText).join(", ");
  const location = { to: "/executions", search: { labels: text } } as const;
  return { key: `labels ${text}`, label: `Executions with label ${text}`, description: "Open the list", location };
}

export function firstDigitsTargets(query: string): Target[] {
  if (!FIRST_DIGITS.test(query)) {
    return [];
  }
  const location = { to: "/executions", search: { id: query } } as const;
  return [{ key: `digits ${query}`, label: `Executions whose id begins with ${query}`, description: "Open the list", location }];
}

/** The executions of a version, such as `samples/orders/process version 3`. */
export function versionTargets(query: string): Target[] {
  const [, path, version] = VERSION.exec(query) ?? [];
  if (path === undefined || version === undefined) {
    return [];
  }
  const location = { to: "/executions", search: { path, version } } as const;
  const label = `Executions of ${path}, version ${version}`;
  return [{ key: `version ${path} ${version}`, label, description: "Open the list", location }];
}

/** The executions that started, and those that ended, in a day, a minute or a second, such as `2026-03-01 09:30`. */
export function timeTargets(query: string, zone: Zone): Target[] {
  const period = periodOf(query, zone);
  if (!period) {
    return [];
  }
  const [from, to] = period;
  const target = (verb: string, search: object): Target => ({
    key: `${verb} ${query}`,
    label: `Executions that ${verb} ${query}`,
    description: "Open the list",
    location: { to: "/executions", search },
  });
  return [target("started", { since: from, until: to }), target("ended", { endedSince: from, endedUntil: to })];
}

/** Returns the first moment of a written time, and the moment after it; null if the text is no time. */
function periodOf(text: string, zone: Zone): [string, string] | null {
  const [, day, minute, second, utc] = TIME.exec(text) ?? [];
  const suffix = utc !== undefined || zone === "utc" ? "Z" : "";
  const from = new Date(`${day}T${minute ?? "00:00"}${second ?? ":00"}${suffix}`);
  if (day === undefined || Number.isNaN(from.getTime())) {
    return null;
  }
  const length = second !== undefined ? SECOND_MS : minute !== undefined ? MINUTE_MS : DAY_MS;
  const to = new Date(from.getTime() + length);
  if (length === DAY_MS && suffix === "") {
    // A day in which the clock is changed has another length.
    to.setTime(from.getTime());
    to.setDate(to.getDate() + 1);
  }
  return [from.toISOString(), to.toISOString()];
}

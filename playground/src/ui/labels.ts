/** Texts of labels, and of conditions on labels, in addresses and fields: `order_id=17, team`. */

import type { LinkProps } from "@tanstack/react-router";

import type { LabelFilter } from "../api/schema.generated";

/** Name of a label, with its value; without one, any value is meant. */
export interface WrittenLabel {
  name: string;
  value: string | undefined;
}

const LABEL = /([^\s,=]+)(?:\s*=\s*("(?:[^"\\]|\\.)*"|[^\s,]*))?/g;
const PLAIN_VALUE = /^[^\s,"]+$/;

/** Returns the labels of a text, separated by commas or spaces. A value that contains these is written as in JSON. */
export function readLabels(text: string): WrittenLabel[] {
  return Array.from(text.matchAll(LABEL), ([, name = "", value]) => ({ name, value: value && unquoted(value) }));
}

/** Returns the text of a label. */
export function labelText({ name, value }: WrittenLabel): string {
  if (value === undefined) {
    return name;
  }
  return `${name}=${PLAIN_VALUE.test(value) ? value : JSON.stringify(value)}`;
}

/**
 * Returns the conditions of a text that is not empty; at least one, so that a malformed text never matches all executions. The
 * server refuses malformed names and values.
 */
export function labelConditions(text: string): LabelFilter[] {
  const labels = readLabels(text);
  const conditions: WrittenLabel[] = labels.length > 0 ? labels : [{ name: text, value: undefined }];
  return conditions.map(({ name, value }) => (value === undefined ? { name, exists: true } : { name, equals: value }));
}

/** Returns the address of the executions with a label. */
export function labelLocation(label: WrittenLabel) {
  return { to: "/executions", search: { labels: labelText(label) } } as const satisfies LinkProps;
}

function unquoted(value: string): string {
  try {
    return value.startsWith('"') ? String(JSON.parse(value)) : value;
  } catch {
    return value;
  }
}

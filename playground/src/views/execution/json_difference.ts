/** Differences of two JSON values, leaf by leaf. */

import { ExactNumber } from "../../api/exact_json";

export interface Difference {
  /** Place of the value, such as `order.items[0].sku`. */
  place: string;
  /** Undefined if the value is only in the other document. */
  left: unknown;
  right: unknown;
}

/** Returns the leaves that differ, in the order of the left document. */
export function differencesOf(left: unknown, right: unknown): Difference[] {
  const before = leavesOf(left);
  const after = leavesOf(right);
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((place) => JSON.stringify(before.get(place)) !== JSON.stringify(after.get(place)))
    .filter((place) => !isFilled(place, before) && !isFilled(place, after))
    .map((place) => ({ place, left: before.get(place), right: after.get(place) }));
}

/** Returns whether a document has values inside a place, at which the other document has an empty list or map. */
function isFilled(place: string, leaves: ReadonlyMap<string, unknown>): boolean {
  return [...leaves.keys()].some((other) => other.startsWith(`${place}.`) || other.startsWith(`${place}[`));
}

function leavesOf(value: unknown, place = "", leaves = new Map<string, unknown>()): Map<string, unknown> {
  const entries = entriesOf(value, place);
  const absent = place === "" && (value === null || value === undefined);
  if (entries.length === 0 && !absent) {
    leaves.set(place || "(whole value)", value);
  }
  entries.forEach(([inner, child]) => leavesOf(child, inner, leaves));
  return leaves;
}

function entriesOf(value: unknown, place: string): [string, unknown][] {
  if (Array.isArray(value)) {
    return value.map((child, index) => [`${place}[${index}]`, child]);
  }
  if (typeof value === "object" && value !== null && !(value instanceof ExactNumber)) {
    return Object.entries(value).map(([key, child]) => [place ? `${place}.${key}` : key, child]);
  }
  return [];
}

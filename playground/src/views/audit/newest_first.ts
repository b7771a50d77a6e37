/** One list of actions, merged from lists that the server orders from new to old. */

import type { Entry } from "./entry";

/** The loaded entries of a list. */
interface Part {
  entries: readonly Entry[];
  hasMore: boolean;
}

interface Merged {
  entries: Entry[];
  /** Index of the list whose next page continues the merged list; null: nothing follows. */
  next: number | null;
}

/**
 * Merges lists by time. The result ends with the last loaded entry of the first list that has more: entries of the other
 * lists that are older may come after entries that are not loaded yet.
 */
export function newestFirst(parts: readonly Part[]): Merged {
  const places = parts.map(() => 0);
  const entries: Entry[] = [];
  for (;;) {
    const next = parts.findIndex(({ entries: loaded, hasMore }, part) => hasMore && places[part] === loaded.length);
    if (next >= 0) {
      return { entries, next };
    }
    const heads = parts.map(({ entries: loaded }, part) => loaded[places[part]!]);
    const newest = heads.reduce<number>((best, head, part) => (timeOf(head) > timeOf(heads[best]) ? part : best), 0);
    const entry = heads[newest];
    if (!entry) {
      return { entries, next: null };
    }
    entries.push(entry);
    places[newest]! += 1;
  }
}

/** Returns the time of an entry in milliseconds; one without a time is the oldest, and none is before all. */
function timeOf(entry: Entry | undefined): number {
  if (!entry) {
    return -Infinity;
  }
  return entry.at === null ? -Number.MAX_VALUE : Date.parse(entry.at);
}

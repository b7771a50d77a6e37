/** Variables of the live subscription, from the address of the view. */

import type { EventStart, LiveEventFilter } from "../../api/schema.generated";
import { listOf } from "../../ui/filter_bar";
import type { EventsSearch } from "./search";

const CURSOR = "cursor:";

/** Returns the filter of the server. An empty condition is left out. */
export function filterOf(search: EventsSearch): LiveEventFilter {
  const lists = {
    types: listOf(search.types),
    executionIds: listOf(search.executions),
    nodeNames: listOf(search.nodes),
    statuses: listOf(search.statuses),
  };
  const set = Object.entries(lists).filter(([, values]) => values.length > 0);
  return { ...Object.fromEntries(set), ...(search.parent !== undefined && { parentExecutionId: search.parent }) };
}

/** Returns the start: `beginning`, `cursor:…`, a time, or the events from now on. */
export function startOf(from: string | undefined): EventStart {
  if (from === undefined) {
    return { latest: true };
  }
  if (from === "beginning") {
    return { beginning: true };
  }
  const cursor = cursorOf(from);
  return cursor === undefined ? { since: from } : { after: cursor };
}

/** Returns the value of `from` that starts after a cursor. */
export function fromCursor(cursor: string): string {
  return CURSOR + cursor;
}

/** Returns the cursor in a value of `from`; undefined if it is another start. */
export function cursorOf(from: string | undefined): string | undefined {
  return from?.startsWith(CURSOR) ? from.slice(CURSOR.length) : undefined;
}

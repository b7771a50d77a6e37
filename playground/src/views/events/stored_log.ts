/**
 * The stored log of an execution or a source subscription, read backwards from its end. Its live events continue it: the
 * stream stores events only for a time, the database keeps them. Pages and live events can have events in common, and the
 * list gets each once.
 */

import { send } from "../../api/client";
import { toApiError, type ApiError } from "../../api/errors";
import type { EventStart, LiveEventFilter } from "../../api/schema.generated";
import { retryWait } from "../../api/socket";
import { StoredEventsDocument, type StoredEventsQuery } from "./operations.generated";
import type { EventRow } from "./rows";

type StoredPage = NonNullable<StoredEventsQuery["events"]>;

/** Returns whether a list begins with a stored log: that of one log from its beginning. */
export function hasStoredLog({ executionIds }: LiveEventFilter, start: EventStart): boolean {
  return executionIds?.length === 1 && start.beginning === true;
}

export class StoredLog {
  private readonly executionId: string;
  private readonly filter: LiveEventFilter;
  private cursor: string | null = null;
  private readonly ids = new Set<string>();
  /** Ids of the live events that an earlier page could contain. */
  private readonly delivered = new Set<string>();
  /** Whether the log has events before those that were read. */
  more = true;
  /** Number of events of the log that match the filter; null until it is known. */
  total: StoredPage["totalCount"] = null;
  /** Start of the live events that follow the pages. */
  liveStart: EventStart = { beginning: true };

  constructor({ executionIds, ...filter }: LiveEventFilter) {
    this.executionId = executionIds?.[0] ?? "";
    this.filter = filter;
  }

  /** Number of events that were read. */
  get read(): number {
    return this.ids.size;
  }

  /** Returns whether a live event was read before, and takes note of it if earlier pages can be read. */
  isRepeated(id: string, hasEarlier: boolean): boolean {
    if (hasEarlier) {
      this.delivered.add(id);
    }
    return this.ids.has(id);
  }

  /** Reads the newest page, also after the server was away. Returns the error if the log can't be read. */
  async readNewest(signal: AbortSignal): Promise<EventRow[] | ApiError> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.readPage(signal);
      } catch (fault) {
        const error = toApiError(fault);
        if (signal.aborted || error.code !== "UNREACHABLE") {
          return error;
        }
        await retryWait(attempt);
      }
    }
  }

  /** Reads the page before the events that were read. Returns those that were not delivered live, in the order of their ids. */
  async readPage(signal: AbortSignal): Promise<EventRow[]> {
    const { executionId, filter, cursor: before } = this;
    const { data } = await send(StoredEventsDocument, { executionId, filter, before, newest: before === null }, signal);
    const { nodes = [], pageInfo, streamCursor, totalCount } = data.events ?? {};
    this.more = pageInfo?.hasPreviousPage ?? false;
    this.cursor = pageInfo?.startCursor ?? before;
    this.total = totalCount ?? this.total;
    // Without this cursor, the live events begin with all that the stream stores, and those that were read are left out.
    this.liveStart = typeof streamCursor === "string" ? { after: streamCursor } : this.liveStart;
    nodes.forEach(({ id }) => this.ids.add(id));
    const rows = nodes.filter(({ id }) => !this.delivered.has(id));
    if (!this.more) {
      this.delivered.clear();
    }
    return rows.map((event) => ({ kind: "event", cursor: null, event }));
  }
}

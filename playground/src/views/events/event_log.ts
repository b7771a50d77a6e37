/**
 * The live log of committed events. It keeps the newest 100,000 rows and draws at most once per screen refresh, however
 * many events arrive. It resumes after its last cursor, so a lost connection neither loses nor repeats an event. The log
 * of one execution begins with its stored events, of which the newest are read first.
 *
 * A pause holds the shown end in place; rows that arrive meanwhile wait behind it.
 */

import { ApiError, toApiError } from "../../api/errors";
import { follow, type LiveState } from "../../api/live";
import type { EventStart, LiveEventFilter } from "../../api/schema.generated";
import { DrawSchedule } from "./draw_schedule";
import { EventsTailDocument } from "./operations.generated";
import { RateMeter } from "./rate_meter";
import { Ring } from "./ring";
import { comesAgain, mark, rowOf, searchText, type EventRow, type Row, type StreamItem, type TailEvent } from "./rows";
import { hasStoredLog, StoredLog } from "./stored_log";

/** Maximum number of rows of the list. */
export const CAPACITY = 100_000;
/** Number of stored events that are loaded at first, and with each request for earlier ones. */
const FIRST_STORED = 1_000;
const STORED_AT_ONCE = 5_000;

/** The stored events of the list. */
export interface StoredEvents {
  loaded: number;
  /** Number of events of the log that match the filter; null: unknown. */
  total: StoredLog["total"];
  /** Whether there are earlier ones, and the list has room for them. */
  more: boolean;
  reading: boolean;
}

export interface LogSnapshot {
  state: LiveState;
  error: ApiError | undefined;
  /** Number of events received since the start of the stream. */
  received: number;
  /** Number of rows that a pause holds back. */
  waiting: number;
  paused: boolean;
  /** Number of rows that match the search. */
  length: number;
  /**
   * Number of rows dropped at the start of the list since the stream began, without those added there, for the position of
   * the scroll bar.
   */
  dropped: number;
  /** Number of committed events that the stream has not delivered, from the last heartbeat. */
  lag: string | null;
  /** Stored events with which the list began; null if it began with the stream. */
  stored: StoredEvents | null;
}

const EMPTY: LogSnapshot = {
  state: "connecting",
  error: undefined,
  received: 0,
  waiting: 0,
  paused: false,
  length: 0,
  dropped: 0,
  lag: null,
  stored: null,
};

export class EventLog {
  readonly rates = new RateMeter();
  private shown = EMPTY;
  private rows = new Ring<Row>(CAPACITY);
  private received = 0;
  private cursor: string | null = null;
  private lag: string | null = null;
  private pausedEnd: number | null = null;
  private find = "";
  /** Numbers of the rows that match the search, and the number of the first row that was not compared. */
  private matches = new Ring<number>(CAPACITY);
  private compared = 0;
  /** Ids of the events that the stream can deliver again after a new epoch. Each is listed once. */
  private repeatable = new Set<string>();
  private stored: StoredLog | null = null;
  private reading = false;
  private stopped = new AbortController();
  private readonly schedule = new DrawSchedule(() => this.draw());
  private readonly listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): LogSnapshot => this.shown;

  /** Follows the events from a start on, until the returned function is called. */
  follow(filter: LiveEventFilter, start: EventStart): () => void {
    this.reset();
    this.stopped = new AbortController();
    const { stopped } = this;
    if (hasStoredLog(filter, start)) {
      this.stored = new StoredLog(filter);
      void this.followStored(filter, this.stored, stopped.signal);
    } else {
      this.followStream(filter, start, stopped.signal);
    }
    return () => {
      stopped.abort();
      this.schedule.cancel();
    };
  }

  private followStream(filter: LiveEventFilter, start: EventStart, signal: AbortSignal): void {
    const variables = () => ({ filter, start: this.cursor === null ? start : { after: this.cursor } });
    const stop = follow(EventsTailDocument, variables, {
      next: (data) => this.take(data.events),
      state: (state, error) => this.stateChanged(state, error),
    });
    signal.addEventListener("abort", stop);
  }

  /**
   * Reads the newest stored events, and then follows the stream after them. If the database can't be read, the list has the
   * events that the stream stores.
   */
  private async followStored(filter: LiveEventFilter, stored: StoredLog, signal: AbortSignal): Promise<void> {
    const newest = await stored.readNewest(signal);
    if (signal.aborted) {
      return;
    }
    if (newest instanceof ApiError) {
      this.stored = null;
      const text = `The stored events can't be read, so the list has only those of the stream. ${newest.message}`;
      this.rows.push(mark("bad", new Date().toISOString(), text));
    } else {
      this.addEarlier(newest);
    }
    this.followStream(filter, stored.liveStart, signal);
    await this.loadEarlier(FIRST_STORED - stored.read);
  }

  /** Loads stored events before those that are loaded, if there are any. */
  async loadEarlier(count = STORED_AT_ONCE): Promise<void> {
    const { stored, stopped } = this;
    if (!stored || this.reading) {
      return;
    }
    this.reading = true;
    this.schedule.request();
    const wanted = stored.read + count;
    try {
      while (this.hasEarlier() && stored.read < wanted) {
        const rows = await stored.readPage(stopped.signal);
        if (stopped.signal.aborted) {
          return;
        }
        this.addEarlier(rows);
        this.clearReadError();
      }
    } catch (fault) {
      if (stopped.signal.aborted) {
        return;
      }
      this.show({ ...this.shown, error: toApiError(fault) });
    }
    this.reading = false;
    this.schedule.request();
  }

  /** Clears the error of an earlier attempt to read. The error that ended the stream stays. */
  private clearReadError(): void {
    if (this.shown.error && this.shown.state !== "ended") {
      this.show({ ...this.shown, error: undefined });
    }
  }

  private hasEarlier(): boolean {
    return this.stored !== null && this.stored.more && this.rows.end - this.rows.first < CAPACITY;
  }

  private addEarlier(rows: readonly EventRow[]): void {
    const added = this.rows.prepend(rows);
    if (this.find) {
      const numbers = Array.from({ length: added }, (_, index) => this.rows.first + index);
      this.matches.prepend(numbers.filter((number) => this.isMatch(this.rows.get(number))));
    }
    this.schedule.request();
  }

  /** Returns the row at a place of the shown list. */
  rowAt(index: number): Row | undefined {
    return this.rows.get(this.numberAt(index));
  }

  /** Returns the number of the row at a place. It stays the same while the row is kept. */
  numberAt(index: number): number {
    return this.find ? (this.matches.get(this.firstMatch() + index) ?? NaN) : this.rows.first + index;
  }

  /** Returns the events of the shown list, in its order. */
  shownEvents(): TailEvent[] {
    const rows = Array.from({ length: this.shown.length }, (_, index) => this.rowAt(index));
    return rows.flatMap((row) => (row?.kind === "event" ? [row.event] : []));
  }

  /** Returns the cursor of a loaded event that the stream has delivered. */
  cursorOf(id: string): string | undefined {
    for (let number = this.rows.end - 1; number >= this.rows.first; number -= 1) {
      const row = this.rows.get(number);
      if (row?.kind === "event" && row.event.id === id) {
        return row.cursor ?? undefined;
      }
    }
    return undefined;
  }

  pause(): void {
    this.pausedEnd = this.rows.end;
    this.draw();
  }

  resume(): void {
    this.pausedEnd = null;
    this.draw();
  }

  /** Shows only the rows that contain a text. */
  search(text: string): void {
    this.find = text.trim().toLowerCase();
    this.matches = new Ring(CAPACITY);
    this.compared = this.rows.first;
    this.draw();
  }

  private reset(): void {
    this.rows = new Ring(CAPACITY);
    this.matches = new Ring(CAPACITY);
    this.compared = 0;
    this.repeatable = new Set();
    this.stored = null;
    this.reading = false;
    this.received = 0;
    this.cursor = null;
    this.lag = null;
    this.pausedEnd = null;
    this.rates.reset();
    this.show(EMPTY);
  }

  private take(item: StreamItem): void {
    this.cursor = item.cursor;
    if (item.__typename === "StreamHeartbeat") {
      this.lag = item.lagEvents;
    }
    if (item.__typename === "StreamGap" && comesAgain(item)) {
      this.expectAgain(item.shard);
    }
    if (item.__typename === "EventDelivery") {
      if (this.repeatable.delete(item.event.id) || this.stored?.isRepeated(item.event.id, this.hasEarlier())) {
        return;
      }
      this.received += 1;
      this.rates.count();
    }
    const row = rowOf(item, this.stored !== null);
    if (row) {
      this.rows.push(row);
    }
    this.schedule.request();
  }

  private expectAgain(shard: number): void {
    for (let number = this.rows.first; number < this.rows.end; number += 1) {
      const row = this.rows.get(number);
      if (row?.kind === "event" && row.event.shard === shard) {
        this.repeatable.add(row.event.id);
      }
    }
  }

  private stateChanged(state: LiveState, error: ApiError | undefined): void {
    const before = this.shown.state;
    const at = new Date().toISOString();
    if (state === "reconnecting" && before === "live") {
      this.rows.push(mark("waiting", at, "The connection was lost. The list continues after the last event."));
    }
    if (state === "live" && before === "reconnecting") {
      this.rows.push(mark("plain", at, "Connected again. No event is missing, unless a row below names a gap."));
    }
    this.show({ ...this.shown, state, error });
    this.schedule.request();
  }

  private draw(): void {
    this.compareNewRows();
    const end = this.pausedEnd ?? this.rows.end;
    this.show({
      ...this.shown,
      received: this.received,
      lag: this.lag,
      stored: this.storedEvents(),
      paused: this.pausedEnd !== null,
      waiting: this.rows.end - end,
      length: this.find ? this.matches.end - this.firstMatch() : Math.max(0, end - this.rows.first),
      dropped: this.find ? this.firstMatch() : this.rows.first,
    });
  }

  private storedEvents(): StoredEvents | null {
    const { stored, reading } = this;
    return stored && stored.read > 0 ? { loaded: stored.read, total: stored.total, more: this.hasEarlier(), reading } : null;
  }

  private compareNewRows(): void {
    const end = this.pausedEnd ?? this.rows.end;
    if (!this.find) {
      return;
    }
    for (let number = Math.max(this.compared, this.rows.first); number < end; number += 1) {
      if (this.isMatch(this.rows.get(number))) {
        this.matches.push(number);
      }
    }
    this.compared = Math.max(this.compared, end);
  }

  private isMatch(row: Row | undefined): boolean {
    return row !== undefined && searchText(row).includes(this.find);
  }

  /** Returns the place in `matches` of the first row that is still kept. */
  private firstMatch(): number {
    let low = this.matches.first;
    let high = this.matches.end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.matches.get(middle) ?? 0) < this.rows.first) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  private show(change: LogSnapshot): void {
    this.shown = change;
    for (const listener of this.listeners) {
      listener();
    }
  }
}

/**
 * Reads the log of an execution backwards from its end, and its new events whenever the execution has more of them. A long
 * log is read on demand: the newest 5,000 events are loaded first, and earlier ones when a part of the view asks for them.
 * For an event far before these, only the events around it are read. While the log grows, the earliest events are dropped,
 * so that at most 5,000 more than these are kept.
 */

import { useEffect, useMemo, useState, useSyncExternalStore } from "react";

import { send } from "../../api/client";
import { toApiError, type ApiError } from "../../api/errors";
import { eventAt, merged, overlap, placedBy, type LoadedLog, type PlacedEvent } from "./log_pages";
import { readPart } from "./log_part";
import { ExecutionLogDocument, ExecutionLogStartDocument, type LogEventFragment } from "./operations.generated";

/** Number of events that are loaded at first, and with each request for earlier ones. */
const EVENTS_AT_ONCE = 5_000;
/** Number of events before the loaded ones up to which all events back to a place are read. */
const NEAR = 200;
/** Place from which on a log is read back: the API counts at most this number of events (`ExecutionLogCount`). */
const MAX_COUNTED = 100_000;

interface LogSnapshot extends Omit<LoadedLog<LogEventFragment>, "total"> {
  /** Whether the log has events before the loaded ones. */
  earlier: boolean;
  /** Whether the newest events were read once. */
  read: boolean;
  /** Whether earlier events are being read. */
  reading: boolean;
  error: ApiError | undefined;
}

export interface Log extends LogSnapshot, LoadedLog<LogEventFragment> {
  /** Reads again after an error. */
  retry: () => void;
  loadEarlier: () => void;
  /**
   * Loads the event at a place, counted from 0, with those around it, and returns it. If it is far before the loaded
   * events, the event can be near the place, unless the place of an event around it is known. Undefined: it could not be
   * read, or another place was asked for since.
   */
  loadPlace: (place: number, known: PlacedEvent<LogEventFragment> | null) => Promise<LogEventFragment | undefined>;
}

const EMPTY: LogSnapshot = { events: [], start: [], part: null, earlier: false, read: false, reading: false, error: undefined };

/** Returns the log of an execution with this number of events. A changed number makes it read on. */
export function useLog(id: string, eventCount: string | null): Log {
  const [reader, setReader] = useState(() => new LogReader(id));
  if (reader.id !== id) {
    setReader(new LogReader(id));
  }
  const expected = Number(eventCount ?? 0);
  useEffect(() => void reader.readOn(expected), [reader, expected]);
  const snapshot = useSyncExternalStore(reader.subscribe, reader.snapshot);
  return useMemo(
    () => ({
      ...snapshot,
      total: totalOf(snapshot, expected),
      retry: () => void reader.readOn(expected),
      loadEarlier: () => void reader.load(snapshot.events.length + EVENTS_AT_ONCE),
      loadPlace: reader.loadPlace,
    }),
    [reader, snapshot, expected],
  );
}

/** Returns the number of events in the log. A log whose beginning is loaded has exactly the loaded ones. */
function totalOf({ events, earlier }: LogSnapshot, expected: number): number {
  return earlier ? Math.max(expected, events.length + 1) : events.length;
}

class LogReader {
  private shown = EMPTY;
  /** Cursor of the first loaded event. */
  private cursor: string | null = null;
  /** Cursors of the first events of pages, by event id. */
  private cursors = new Map<string, string>();
  /** Number of events that are wanted from the end of the log. */
  private wanted = EVENTS_AT_ONCE;
  /** Number of events that the log has at least. */
  private expected = 0;
  /** Number of expected events with which the whole log was read again. */
  private readAgainFor = 0;
  private running: Promise<void> | null = null;
  /** Ends the search for a place. */
  private search = new AbortController();
  private again = false;
  private readonly listeners = new Set<() => void>();

  constructor(readonly id: string) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => {
      this.listeners.delete(listener);
      if (!this.isWatched()) {
        this.search.abort();
      }
    };
  };

  readonly snapshot = (): LogSnapshot => this.shown;

  /** Reads the events since the last read. */
  readOn(expected: number): Promise<void> {
    this.expected = expected;
    this.again = true;
    this.running ??= this.run();
    return this.running;
  }

  /** Loads at least this number of events from the end of the log. */
  load(count: number): Promise<void> {
    if (!this.shown.earlier || this.shown.events.length >= count) {
      return Promise.resolve();
    }
    this.wanted = Math.max(this.wanted, count);
    this.running ??= this.run();
    return this.running;
  }

  readonly loadPlace: Log["loadPlace"] = async (place, known) => {
    this.search.abort();
    const before = totalOf(this.shown, this.expected) - this.shown.events.length;
    const isReadBack = before - place <= NEAR || place >= MAX_COUNTED;
    return isReadBack ? this.loadBackTo(place) : this.loadAround(place, known, before);
  };

  /** Loads the log back to a place. While a log grows, its places move away from its end, so more may have to be read. */
  private async loadBackTo(place: number): Promise<LogEventFragment | undefined> {
    const total = () => totalOf(this.shown, this.expected);
    const isMissing = () => this.shown.earlier && total() - this.shown.events.length > place;
    do {
      await this.load(total() - place);
    } while (isMissing() && !this.shown.error && this.isWatched());
    return eventAt({ ...this.shown, total: total() }, place);
  }

  /** Loads the events around a place before the loaded ones, of which the first one is at the place `before`. */
  private async loadAround(
    place: number,
    known: PlacedEvent<LogEventFragment> | null,
    before: number,
  ): Promise<LogEventFragment | undefined> {
    this.search = new AbortController();
    const { signal } = this.search;
    const timeOf = (event: LogEventFragment | undefined) => Date.parse(event?.createdAt ?? "");
    const { start, events } = this.shown;
    const end = { place: before, time: timeOf(events[0]) };
    this.show({ reading: true });
    try {
      const read = await readPart(this.id, place, timeOf(start[0] ?? events[0]), end, signal);
      const part = placedBy(read, known);
      this.show({ part, error: undefined });
      return part?.events[place - part.place] ?? read?.events[place - read.place];
    } catch (fault) {
      if (!signal.aborted) {
        this.show({ error: toApiError(fault) });
      }
      return undefined;
    } finally {
      if (this.search.signal === signal) {
        this.show({ reading: this.running !== null });
      }
    }
  }

  /** Returns whether a view still shows the log. */
  private isWatched(): boolean {
    return this.listeners.size > 0;
  }

  private async run(): Promise<void> {
    try {
      do {
        if (this.again) {
          this.again = false;
          await this.readEnd();
        } else {
          await this.readEarlier();
        }
        this.show({ read: true, error: undefined });
      } while (this.again || (this.isWatched() && this.shown.earlier && this.shown.events.length < this.wanted));
    } catch (fault) {
      this.show({ error: toApiError(fault) });
    } finally {
      this.running = null;
      this.show({ reading: false });
    }
  }

  /** Reads from the end of the log back to the events that are loaded. */
  private async readEnd(): Promise<void> {
    const known = this.shown.events;
    let page = await this.readPage(null);
    let found = page.nodes;
    while (known.length > 0 && page.more && !overlap(known, page.nodes) && found.length < EVENTS_AT_ONCE) {
      page = await this.readPage(page.cursor);
      found = [...page.nodes, ...found];
    }
    if (known.length > 0 && overlap(known, page.nodes)) {
      this.show({ events: merged(known, found) });
      await this.readMissing();
      this.dropEarliest();
    } else {
      // More events are new than are loaded at once. The loaded ones are dropped, so that there is no gap.
      this.cursor = page.cursor;
      this.show({ events: found, start: page.more ? await this.readStart() : [], earlier: page.more });
    }
  }

  /** Reads the whole log again if it has fewer events than it should: an event that is committed late can have a small id. */
  private async readMissing(): Promise<void> {
    const { earlier, events } = this.shown;
    if (earlier || events.length >= this.expected || this.readAgainFor === this.expected) {
      return;
    }
    this.readAgainFor = this.expected;
    let [cursor, more]: [string | null, boolean] = [null, true];
    while (more) {
      const page = await this.readPage(cursor);
      [cursor, more] = [page.cursor, page.more];
      this.show({ events: merged(this.shown.events, page.nodes) });
    }
  }

  private dropEarliest(): void {
    const { events, start, earlier } = this.shown;
    const surplus = events.length - this.wanted;
    if (surplus < EVENTS_AT_ONCE) {
      return;
    }
    const first = events.findLastIndex(({ eventId }, place) => place <= surplus && this.cursors.has(eventId));
    const event = events[first];
    if (event && first > 0) {
      this.cursor = this.cursors.get(event.eventId) ?? null;
      this.cursors = new Map();
      this.show({ events: events.slice(first), start: earlier ? start : events.slice(0, 10), earlier: true });
    }
  }

  private async readEarlier(): Promise<void> {
    this.show({ reading: true });
    const page = await this.readPage(this.cursor);
    this.cursor = page.cursor;
    this.show({ events: merged(this.shown.events, page.nodes), earlier: page.more });
  }

  private async readPage(before: string | null) {
    const { data } = await send(ExecutionLogDocument, { id: this.id, before });
    const { nodes = [], pageInfo } = data.events ?? {};
    if (nodes[0] && pageInfo?.startCursor) {
      this.cursors.set(nodes[0].eventId, pageInfo.startCursor);
    }
    return { nodes, cursor: pageInfo?.startCursor ?? before, more: pageInfo?.hasPreviousPage ?? false };
  }

  private async readStart(): Promise<readonly LogEventFragment[]> {
    const { data } = await send(ExecutionLogStartDocument, { id: this.id });
    return data.events?.nodes ?? [];
  }

  private show(change: Partial<LogSnapshot>): void {
    this.shown = { ...this.shown, ...change };
    this.listeners.forEach((listener) => listener());
  }
}

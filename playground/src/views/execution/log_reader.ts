/**
 * Reads the log of an execution page by page, and continues after its last cursor when the execution has more events.
 * It keeps at most the first 5,000 events; the Events view reads longer logs.
 */

import { useEffect, useState, useSyncExternalStore } from "react";

import { send } from "../../api/client";
import { toApiError, type ApiError } from "../../api/errors";
import { ExecutionLogDocument, type LogEventFragment } from "./operations.generated";

export const MAX_EVENTS = 5_000;

export interface LogSnapshot {
  /** Events in the order of their ids. */
  events: readonly LogEventFragment[];
  /** Whether all pages were read once. */
  read: boolean;
  /** Whether the log has more events than are kept. */
  cut: boolean;
  error: ApiError | undefined;
}

/** Returns the log of an execution. A changed number of events makes it read on. */
export function useLog(id: string, eventCount: string | null): LogSnapshot {
  const [reader, setReader] = useState(() => new LogReader(id));
  if (reader.id !== id) {
    setReader(new LogReader(id));
  }
  useEffect(() => void reader.readOn(), [reader, eventCount]);
  return useSyncExternalStore(reader.subscribe, reader.snapshot);
}

class LogReader {
  private shown: LogSnapshot = { events: [], read: false, cut: false, error: undefined };
  private cursor: string | null = null;
  private reading = false;
  private again = false;
  private readonly listeners = new Set<() => void>();

  constructor(readonly id: string) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): LogSnapshot => this.shown;

  async readOn(): Promise<void> {
    this.again = true;
    if (this.reading) {
      return;
    }
    this.reading = true;
    try {
      while (this.again) {
        this.again = false;
        await this.readPages();
      }
      this.show({ read: true, error: undefined });
    } catch (fault) {
      this.show({ error: toApiError(fault) });
    } finally {
      this.reading = false;
    }
  }

  private async readPages(): Promise<void> {
    let more = true;
    while (more && this.shown.events.length < MAX_EVENTS) {
      const { data } = await send(ExecutionLogDocument, { id: this.id, after: this.cursor });
      const page = data.events;
      more = page?.pageInfo.hasNextPage ?? false;
      this.cursor = page?.pageInfo.endCursor ?? this.cursor;
      this.add(page?.nodes ?? []);
    }
    this.show({ cut: more });
  }

  private add(events: readonly LogEventFragment[]): void {
    if (events.length > 0) {
      this.show({ events: [...this.shown.events, ...events].sort((a, b) => compareIds(a.eventId, b.eventId)) });
    }
  }

  private show(change: Partial<LogSnapshot>): void {
    this.shown = { ...this.shown, ...change };
    this.listeners.forEach((listener) => listener());
  }
}

/** Compares ids as numbers. They have more digits than a number of JavaScript. */
function compareIds(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : Number(a > b));
}

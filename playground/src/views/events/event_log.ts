import type { Client } from "graphql-ws";

import { faultMessage } from "../fault";
import { LIVE_LOG, type Filter, type Start, type StreamItem } from "./stream";

const KEPT = 200;

export type Status = "idle" | "connecting" | "live" | "paused" | "stopped";

/** A row of the log. A heartbeat is not shown; it only advances the cursor. */
export type Row = { key: number; item: Exclude<StreamItem, { __typename: "StreamHeartbeat" }> };

export interface Snapshot {
  status: Status;
  rows: readonly Row[];
  received: number;
  lag: string | null;
  fault: string | null;
  filter: Filter;
  from: "latest" | "beginning";
}

/**
 * The live log of committed events: bounded, newest first. It resumes after its last cursor, so a pause or a lost
 * connection neither loses nor repeats an event. It exists independently of the panel that shows it.
 */
export class LiveLog {
  private shown: Snapshot = {
    status: "idle",
    rows: [],
    received: 0,
    lag: null,
    fault: null,
    filter: {},
    from: "latest",
  };
  private rows: Row[] = [];
  private received = 0;
  private cursor: string | null = null;
  private stopFollowing: (() => void) | null = null;
  private drawing: number | null = null;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly client: Client) {
    client.on("connecting", () => this.whileFollowing("connecting"));
    client.on("connected", () => this.whileFollowing("live"));
    client.on("closed", () => this.whileFollowing("connecting"));
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): Snapshot => this.shown;

  readonly startOnce = (): void => {
    if (this.shown.status === "idle") {
      this.follow();
    }
  };

  readonly pause = (): void => {
    this.unfollow();
    this.show({ status: "paused" });
  };

  readonly resume = (): void => {
    if (!this.stopFollowing) {
      this.follow();
    }
  };

  readonly clear = (): void => {
    this.rows = [];
    this.received = 0;
    this.show({ rows: [], received: 0 });
  };

  /** Changes the filter or the start. The stream is a different one then, so the log is emptied and the cursor dropped. */
  readonly restart = (change: Partial<Pick<Snapshot, "filter" | "from">>): void => {
    this.unfollow();
    this.clear();
    this.cursor = null;
    this.show(change);
    this.follow();
  };

  private follow(): void {
    const variables: { filter: Filter; start: Start } = { filter: this.shown.filter, start: this.start() };
    this.show({ status: "connecting", fault: null });
    const dispose = this.client.subscribe<{ events: StreamItem }>(
      { query: LIVE_LOG, operationName: "LiveLog", variables },
      {
        next: (result) => {
          if (result.data) {
            this.take(result.data.events);
            // After a reconnect, the client sends this payload again.
            variables.start = this.start();
          } else {
            dispose();
            this.stop(faultMessage(result.errors));
          }
        },
        error: (fault) => this.stop(faultMessage(fault)),
        complete: () => this.completed(dispose),
      },
    );
    this.stopFollowing = dispose;
  }

  private unfollow(): void {
    const dispose = this.stopFollowing;
    this.stopFollowing = null;
    dispose?.();
  }

  private start(): Start {
    if (this.cursor !== null) {
      return { after: this.cursor };
    }
    return this.shown.from === "beginning" ? { beginning: true } : { latest: true };
  }

  private take(item: StreamItem): void {
    this.cursor = item.cursor;
    if (item.__typename === "StreamHeartbeat") {
      this.show({ status: "live", lag: item.lagEvents });
      return;
    }
    if (item.__typename === "EventDelivery") {
      this.received += 1;
    }
    const key = (this.rows[0]?.key ?? 0) + 1;
    this.rows = [{ key, item }, ...this.rows].slice(0, KEPT);
    this.drawSoon();
  }

  /** Draws once per screen refresh, because events may arrive faster. */
  private drawSoon(): void {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      this.show({ status: this.stopFollowing ? "live" : this.shown.status, rows: this.rows, received: this.received });
    });
  }

  /** Stops after an error. Drops the cursor, because the server may have refused it. */
  private stop(fault: string): void {
    this.stopFollowing = null;
    this.cursor = null;
    this.show({ status: "stopped", fault });
  }

  /** Called when a stream ends, also if this side ended it. */
  private completed(dispose: () => void): void {
    if (this.stopFollowing === dispose) {
      this.stopFollowing = null;
      this.show({ status: "stopped", fault: "The server ended the stream." });
    }
  }

  private whileFollowing(status: Status): void {
    if (this.stopFollowing) {
      this.show({ status });
    }
  }

  private show(change: Partial<Snapshot>): void {
    this.shown = { ...this.shown, ...change };
    for (const listener of this.listeners) {
      listener();
    }
  }
}

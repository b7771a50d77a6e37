// Journal of the received events: a file with one JSON line for each item.
//
// Each line has the item and its cursor, so one write stores both, and no crash can separate them. The cursor of the
// last line is the position from which the stream continues.

import { openSync, readFileSync, truncateSync, writeSync } from "node:fs";

import { type FollowSubscription } from "./gql/graphql.js";

type Item = Extract<FollowSubscription["events"], { cursor: string }>;

const REMEMBERED = 1000;

export class Journal {
  cursor: string | undefined;
  readonly #file: number;
  readonly #seen: Set<string>;

  constructor(path: string) {
    this.#file = openSync(path, "a");
    const bytes = readFileSync(path);
    // A crash in the middle of a write leaves a line without its end. The event is delivered again.
    const whole = bytes.lastIndexOf("\n") + 1;
    truncateSync(path, whole);
    const lines = bytes.toString("utf8", 0, whole).split("\n").slice(0, -1).slice(-REMEMBERED);
    const items = lines.map((line) => JSON.parse(line) as Item);
    this.cursor = items.at(-1)?.cursor;
    this.#seen = new Set(items.map(key));
  }

  /**
   * Stores an item with its cursor. Returns false if it is a repetition: an event without its large fields has an
   * earlier cursor, so events after it can be delivered again.
   */
  add(item: Item): boolean {
    if (item.__typename === "EventDelivery" && this.#seen.has(key(item))) return false;
    writeSync(this.#file, `${JSON.stringify(item)}\n`);
    this.#seen.add(key(item));
    const [oldest] = this.#seen;
    if (this.#seen.size > REMEMBERED && oldest !== undefined) this.#seen.delete(oldest);
    this.cursor = item.cursor;
    return true;
  }
}

function key(item: Item): string {
  return item.__typename === "EventDelivery" ? `${item.event.executionId}-${item.event.eventId}` : item.cursor;
}

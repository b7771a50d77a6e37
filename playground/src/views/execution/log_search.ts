/**
 * Finds the event at a place of a long log with few requests. The API counts the events before a time, so times with
 * about as many events are tried first. Where the times of events are not in the order of the log, because the clocks of
 * workers differ, the found event is near the place.
 */

/** Number of events in a page. */
const PAGE = 100;
const MAX_COUNTS = 20;
const MAX_PAGES = 10;

/** A time in milliseconds since 1970, and the number of events before it. */
export interface Mark {
  place: number;
  time: number;
}

export interface Found<Event> {
  cursor: string;
  node: Event;
}

export interface LogSource<Event> {
  countBefore: (time: number) => Promise<number>;
  /** Reads a page of the events from a time on, after a cursor. `next` is the cursor of the page after it. */
  pageFrom: (time: number | null, after: string | null) => Promise<{ found: readonly Found<Event>[]; next: string | null }>;
}

/**
 * Returns the event at a place, counted from 0, or one near it. `first` is the time of the first event, `end` is after the
 * place. Undefined: there is none.
 */
export async function findPlace<Event>(
  source: LogSource<Event>,
  place: number,
  first: number,
  end: Mark,
): Promise<Found<Event> | undefined> {
  const from = await markBefore(source, place, first, end);
  let rest = place - from.place;
  let [after, found]: [string | null, Found<Event> | undefined] = [null, undefined];
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = await source.pageFrom(from.time, after);
    found = page.found[rest] ?? page.found.at(-1) ?? found;
    rest -= page.found.length;
    after = page.next;
    if (rest < 0 || after === null) {
      break;
    }
  }
  return found;
}

/** Returns a time with less than a page of events between it and the place, if one is found. Null: the beginning. */
async function markBefore<Event>(source: LogSource<Event>, place: number, first: number, end: Mark) {
  let low: { place: number; time: number | null } = { place: 0, time: null };
  let [lowTime, high, halves] = [first, end, false];
  for (let counts = 0; counts < MAX_COUNTS && place - low.place >= PAGE && high.time - lowTime > 1; counts += 1) {
    const between = high.place - low.place;
    const share = halves ? 0.5 : (place - PAGE / 2 - low.place) / between;
    const guess = Math.round(lowTime + share * (high.time - lowTime));
    const time = Math.min(high.time - 1, Math.max(lowTime + 1, guess));
    const before = await source.countBefore(time);
    if (before <= place) {
      low = { place: before, time };
      lowTime = time;
    } else {
      high = { place: before, time };
    }
    // A guess by the share of events that excludes few of them says that they are not spread evenly.
    halves = high.place - low.place > between / 2;
  }
  return low;
}

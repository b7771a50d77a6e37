/** Events of a log in the order of their ids, from pages that overlap or were read at different times. */

import { compareIds } from "./event_ids";

interface WithId {
  eventId: string;
}

/** Returns the events of two lists, each in the order of ids, as one list in this order with each event once. */
export function merged<Event extends WithId>(known: readonly Event[], read: readonly Event[]): readonly Event[] {
  const ids = new Set(known.map(({ eventId }) => eventId));
  const unknown = read.filter(({ eventId }) => !ids.has(eventId));
  if (unknown.length === 0) {
    return known;
  }
  const all = [...unknown, ...known];
  const [last, next] = [unknown.at(-1), known[0]];
  const follow = last !== undefined && next !== undefined && compareIds(last.eventId, next.eventId) < 0;
  return follow ? all : all.sort((a, b) => compareIds(a.eventId, b.eventId));
}

/** Returns whether the lists have an event in common. */
export function overlap(known: readonly WithId[], read: readonly WithId[]): boolean {
  const ids = new Set(read.map(({ eventId }) => eventId));
  return known.some(({ eventId }) => ids.has(eventId));
}

/** Events of a log without a gap, in the order of their ids. */
export interface LogPart<Event> {
  /** Place of the first of them in the log, counted from 0. */
  place: number;
  events: readonly Event[];
}

/** An event and its place in the log, counted from 0. */
export interface PlacedEvent<Event> {
  event: Event;
  place: number;
}

/** The loaded parts of a log: its first events, its newest ones, and the ones around a place that was chosen. */
export interface LoadedLog<Event extends WithId> {
  /** The newest events without a gap, in the order of their ids. */
  events: readonly Event[];
  /** The first events, in the order of their ids. */
  start: readonly Event[];
  /** Events around the place between these two that was chosen last; null: none was. */
  part: LogPart<Event> | null;
  /** Number of events in the log. */
  total: number;
}

/** Returns the event at a place of the log, counted from 0; undefined if it is not loaded. */
export function eventAt<Event extends WithId>(log: LoadedLog<Event>, place: number): Event | undefined {
  const { events, start, part, total } = log;
  const before = total - events.length;
  return place < before ? (start[place] ?? part?.events[place - part.place]) : events[place - before];
}

/** Returns the place of a loaded event in the log, counted from 0; undefined if it is not loaded. */
export function placeOf<Event extends WithId>({ events, start, part, total }: LoadedLog<Event>, id: string): number | undefined {
  const among = (list: readonly Event[]) => list.findIndex(({ eventId }) => eventId === id);
  const place = among(events);
  if (place >= 0) {
    return total - events.length + place;
  }
  const early = among(start);
  if (early >= 0 || part === null) {
    return early >= 0 ? early : undefined;
  }
  const between = among(part.events);
  return between >= 0 ? part.place + between : undefined;
}

/** Returns a part at its place according to one event whose place is known. Without this event, it stays as it is. */
export function placedBy<Part extends LogPart<WithId> | null>(part: Part, known: PlacedEvent<WithId> | null): Part {
  const index = part?.events.findIndex(({ eventId }) => eventId === known?.event.eventId) ?? -1;
  return part && known && index >= 0 ? { ...part, place: known.place - index } : part;
}

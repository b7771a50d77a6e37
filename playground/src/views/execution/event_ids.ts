/** Order of events by their ids. */

/** Compares ids as numbers. They have more digits than a number of JavaScript. */
export function compareIds(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : Number(a > b));
}

/** Returns the events up to the one with this id; all if the id is undefined. */
export function eventsUntil<Event extends { eventId: string }>(events: readonly Event[], at: string | undefined): readonly Event[] {
  return at === undefined ? events : events.filter(({ eventId }) => compareIds(eventId, at) <= 0);
}

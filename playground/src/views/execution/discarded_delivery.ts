/** The discard of the delivery that a pending execution waits for. The log has an event about each discard of a delivery. */

/** Returns the last discard of a delivery; null if there is none, or if the execution does not wait for a worker any more. */
export function discardOf<Event extends { type: string }>(status: string, events: readonly Event[]): Event | null {
  return status === "PENDING" ? (events.findLast(({ type }) => type === "outbox.discarded") ?? null) : null;
}

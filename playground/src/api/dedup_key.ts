/** Dedup keys of the requests of the console, so that a request that is sent again starts nothing twice. */

/** Time in seconds within which a request with the same key starts nothing again. */
export const WINDOW_SECONDS = 7 * 24 * 3_600;

/** Returns a text that no other request has. It also works without TLS, unlike `crypto.randomUUID`. */
export function newDedupKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `console-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

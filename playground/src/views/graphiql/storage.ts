/**
 * What GraphiQL keeps in the local storage of the browser: tabs, history and its own settings, without the headers that the
 * user writes. A header can contain a token, and the local storage keeps everything after a sign-out.
 */

import type { GraphiQLProps } from "graphiql";

/** Prefix of GraphiQL's keys. */
const OWN = "graphiql:";
/** Keys of the operations that were run, which have the headers in the field `headers`. */
const HISTORY: ReadonlySet<string> = new Set([`${OWN}queries`, `${OWN}favorites`]);

export function storageWithoutHeaders(browser: Storage): NonNullable<GraphiQLProps["storage"]> {
  const ownKeys = () =>
    Array.from({ length: browser.length }, (_, index) => browser.key(index) ?? "").filter((key) => key.startsWith(OWN));
  return {
    getItem: (key) => browser.getItem(key),
    setItem: (key, value) => browser.setItem(key, HISTORY.has(key) ? withoutHeaders(value) : value),
    removeItem: (key) => browser.removeItem(key),
    /** Leaves the other data of the console, such as the number of sign-outs and the saved views. */
    clear: () => ownKeys().forEach((key) => browser.removeItem(key)),
    get length() {
      return ownKeys().length;
    },
  };
}

function withoutHeaders(history: string): string {
  return JSON.stringify(JSON.parse(history), (key, value: unknown) => (key === "headers" ? undefined : value));
}

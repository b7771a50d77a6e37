/** Filters that the user saved under a name in this browser. They contain no credentials. */

import { useSyncExternalStore } from "react";

import type { ExecutionsSearch } from "./route";

const STORED = "noetl.executions.views";

export type SavedViewsByName = Readonly<Record<string, ExecutionsSearch>>;

let views = read();
const listeners = new Set<() => void>();

/** Returns the saved views, and draws the caller again after a change. */
export function useSavedViews(): SavedViewsByName {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => views,
  );
}

/** Saves a view. A view with the same name is replaced. */
export function saveView(name: string, search: ExecutionsSearch): void {
  store({ ...views, [name]: search });
}

export function removeView(name: string): void {
  store(Object.fromEntries(Object.entries(views).filter(([saved]) => saved !== name)));
}

function store(changed: SavedViewsByName): void {
  views = changed;
  window.localStorage.setItem(STORED, JSON.stringify(changed));
  listeners.forEach((listener) => listener());
}

function read(): SavedViewsByName {
  try {
    const stored: unknown = JSON.parse(window.localStorage.getItem(STORED) ?? "{}");
    return typeof stored === "object" && stored !== null ? (stored as SavedViewsByName) : {};
  } catch {
    return {};
  }
}

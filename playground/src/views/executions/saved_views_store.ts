/** Filters that the user saved under a name in this browser, and which of them are watched. They contain no credentials. */

import { Stored } from "../../ui/stored";
import type { ExecutionsSearch } from "./search";

/** Condition under which the user is notified. */
export interface Watch {
  /** The user is notified when more executions match. */
  above: number;
  /** Whether more matched when they were last counted. The user is notified when this changes to true. */
  exceeded: boolean;
}

export const SAVED_VIEWS = new Stored<ExecutionsSearch>("noetl.executions.views");
/** Watched views by their names. */
export const WATCHES = new Stored<Watch>("noetl.executions.watches");

/** Saves a view. A view with the same name is replaced, and is not watched any more. */
export function saveView(name: string, search: ExecutionsSearch): void {
  WATCHES.remove(name);
  SAVED_VIEWS.set(name, search);
}

export function removeView(name: string): void {
  WATCHES.remove(name);
  SAVED_VIEWS.remove(name);
}

/** Watches a view: the user is notified when more than `above` executions match it, also if that is so already. */
export function watchView(name: string, above: number): void {
  WATCHES.set(name, { above, exceeded: false });
}

export function unwatchView(name: string): void {
  WATCHES.remove(name);
}

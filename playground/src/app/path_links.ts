/** Addresses of the views that show what belongs to a catalog path: its executions, its subscription, and the form. */

import type { LinkProps } from "@tanstack/react-router";

import type { CatalogKind } from "../api/schema.generated";

export type PathView = "execute" | "executions" | "subscriptions";

/** Returns whether an entry of the kind can be executed. */
export function isExecutable(kind: CatalogKind): boolean {
  return kind === "PLAYBOOK" || kind === "AGENT";
}

/** Returns the address of a view whose filter is the path. */
export function pathLocation(view: PathView, path: string): Pick<LinkProps, "to" | "search"> {
  return { to: `/${view}` as string, search: { path } } as Pick<LinkProps, "to" | "search">;
}

/** Returns the address of the executions of a path that failed in the last hour. */
export function lastFailuresLocation(path: string) {
  return { to: "/executions", search: { path, statuses: "FAILED", endedSince: "1h" } } as const satisfies LinkProps;
}

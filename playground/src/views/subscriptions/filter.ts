/** The filter of the list, from the address. */

import type { SubscriptionFilter, SubscriptionStatus } from "../../api/schema.generated";
import { chosenOf } from "../../ui/filter_choices";
import { labelConditions } from "../../ui/labels";
import type { SubscriptionsSearch } from "./search";

export const STATUSES: readonly { value: SubscriptionStatus; label: string }[] = [
  { value: "ACTIVE", label: "Active" },
  { value: "PAUSED", label: "Paused" },
  { value: "DRAINING", label: "Draining" },
  { value: "REGISTERED", label: "Registered" },
  { value: "DEACTIVATED", label: "Deactivated" },
  { value: "UNKNOWN", label: "Unknown" },
];

type Conditions = Pick<SubscriptionsSearch, "statuses" | "path" | "labels" | "deactivated">;

/** Returns the filter of the server; null if all subscriptions match. */
export function filterOf(conditions: Conditions): SubscriptionFilter | null {
  const statuses = statusesOf(conditions);
  const { path, labels } = conditions;
  if (statuses.length === STATUSES.length && (path ?? labels) === undefined) {
    return null;
  }
  return {
    ...(statuses.length < STATUSES.length && { statuses }),
    ...(path !== undefined && { pathPrefix: path }),
    ...(labels !== undefined && { labels: labelConditions(labels) }),
  };
}

/**
 * Returns the filter of the subscriptions that an action changes. Deactivated ones and those in an unknown state, which a
 * list of all states has too, are not changed.
 */
export function changedBy(filter: SubscriptionFilter | null): SubscriptionFilter {
  const live = STATUSES.map(({ value }) => value).filter((status) => status !== "DEACTIVATED" && status !== "UNKNOWN");
  return { statuses: live, ...filter };
}

/** Returns the listed states. Deactivated subscriptions are many, so they are listed only if the address asks for them. */
function statusesOf({ statuses, deactivated }: Conditions): SubscriptionStatus[] {
  const all = STATUSES.map(({ value }) => value);
  if (choosesStatuses(statuses)) {
    return chosenOf(statuses, STATUSES);
  }
  return deactivated === "1" ? all : all.filter((status) => status !== "DEACTIVATED");
}

/** Returns whether the address names states that exist. */
export function choosesStatuses(statuses: string | undefined): boolean {
  return chosenOf(statuses, STATUSES).length > 0;
}

/** Returns the selected subscriptions in words. */
export function filterInWords({ statuses, path, labels, deactivated }: Conditions): string {
  const chosen = new Set<string>(chosenOf(statuses, STATUSES));
  const names = STATUSES.filter(({ value }) => chosen.has(value)).map(({ label }) => label.toLowerCase());
  const others = deactivated === "1" ? "" : " that are not deactivated";
  const state = names.length > 0 ? ` that are ${names.join(" or ")}` : others;
  const conditions = [
    ...(path === undefined ? [] : [`whose path begins with ${path}`]),
    ...(labels === undefined ? [] : [`with the labels ${labels}`]),
  ].join(" and ");
  return `All subscriptions${state}${conditions && (state ? " and " : " ")}${conditions}.`;
}

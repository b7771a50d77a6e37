/** The filter of the list, from the address. */

import type { SubscriptionFilter, SubscriptionStatus } from "../../api/schema.generated";
import { chosenOf } from "../../ui/filter_choices";
import type { SubscriptionsSearch } from "./search";

export const STATUSES: readonly { value: SubscriptionStatus; label: string }[] = [
  { value: "ACTIVE", label: "Active" },
  { value: "PAUSED", label: "Paused" },
  { value: "DRAINING", label: "Draining" },
  { value: "REGISTERED", label: "Registered" },
  { value: "DEACTIVATED", label: "Deactivated" },
  { value: "UNKNOWN", label: "Unknown" },
];

/** Returns the filter of the server; null if all subscriptions match. */
export function filterOf({ statuses, path }: Pick<SubscriptionsSearch, "statuses" | "path">): SubscriptionFilter | null {
  const chosen = chosenOf(statuses, STATUSES);
  if (chosen.length === 0 && path === undefined) {
    return null;
  }
  return {
    ...(chosen.length > 0 && { statuses: chosen }),
    ...(path !== undefined && { pathPrefix: path }),
  };
}

/** Returns the selected subscriptions in words. */
export function filterInWords({ statuses, path }: Pick<SubscriptionsSearch, "statuses" | "path">): string {
  const chosen = new Set<string>(chosenOf(statuses, STATUSES));
  const names = STATUSES.filter(({ value }) => chosen.has(value)).map(({ label }) => label.toLowerCase());
  const state = names.length > 0 ? ` that are ${names.join(" or ")}` : "";
  const paths = path === undefined ? "" : `${state ? " and" : ""} whose path begins with ${path}`;
  return `All subscriptions${state}${paths}.`;
}

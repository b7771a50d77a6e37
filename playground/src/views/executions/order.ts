/** Order of the list, from the address of the view. The server orders. */

import type { ExecutionOrder } from "../../api/schema.generated";

export const ORDERS: readonly { value: ExecutionOrder; label: string }[] = [
  { value: "NEWEST", label: "Newest first" },
  { value: "OLDEST", label: "Oldest first" },
  { value: "LONGEST", label: "Longest first" },
  { value: "LAST_ENDED", label: "Last ended first" },
];

/** The order that is live. */
export const NEWEST: ExecutionOrder = "NEWEST";

/** Returns the order of an address. An unknown one is left out. */
export function orderOf(text: string | undefined): ExecutionOrder {
  return ORDERS.find(({ value }) => value === text?.toUpperCase())?.value ?? NEWEST;
}

export function labelOf(order: ExecutionOrder): string {
  return ORDERS.find(({ value }) => value === order)?.label ?? order;
}

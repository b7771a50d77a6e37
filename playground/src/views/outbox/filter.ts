/** The filter of the entries, from the address. */

import type { OutboxFilter, OutboxStatus } from "../../api/schema.generated";
import { chosenOf } from "../../ui/filter_choices";
import type { OutboxEntryFieldsFragment } from "./operations.generated";
import type { OutboxSearch } from "./search";

export const STATUSES: readonly { value: OutboxStatus; label: string }[] = [
  { value: "PENDING", label: "Pending" },
  { value: "IN_FLIGHT", label: "In flight" },
  { value: "FAILED", label: "Failed" },
  { value: "DEAD", label: "Dead" },
  { value: "PUBLISHED", label: "Published" },
  { value: "UNKNOWN", label: "Unknown" },
];

type Conditions = Pick<OutboxSearch, "statuses" | "execution" | "attempts">;

/** Returns the filter of the server; null if all entries match. */
export function filterOf({ statuses, execution, attempts }: Conditions): OutboxFilter | null {
  const chosen = chosenOf(statuses, STATUSES);
  const filter = {
    ...(chosen.length > 0 && { statuses: chosen }),
    ...(execution !== undefined && { executionId: execution }),
    ...(attempts !== undefined && /^[1-9]\d{0,8}$/.test(attempts) && { minAttempts: Number(attempts) }),
  };
  return Object.keys(filter).length > 0 ? filter : null;
}

/** Returns the filter for those of the selected entries that have one of some statuses; null if there can be none. */
export function withStatuses(filter: OutboxFilter | null, statuses: readonly OutboxStatus[]): OutboxFilter | null {
  const chosen = filter?.statuses ? statuses.filter((status) => filter.statuses?.includes(status)) : statuses;
  return chosen.length > 0 ? { ...filter, statuses: [...chosen] } : null;
}

/** Returns whether an entry contains a text in its id, subject, execution or error. */
export function contains(entry: OutboxEntryFieldsFragment, text: string | undefined): boolean {
  const { entryId, subject, executionId, lastError } = entry;
  return !text || `${entryId} ${subject ?? ""} ${executionId ?? ""} ${lastError ?? ""}`.toLowerCase().includes(text.toLowerCase());
}

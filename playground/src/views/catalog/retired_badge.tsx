/** The mark of a retired version: it is not the newest of its path, and lists leave it out. */

import { StatusBadge } from "../../ui/status_badge";

export function RetiredBadge() {
  return <StatusBadge status="RETIRED" tone="waiting" />;
}

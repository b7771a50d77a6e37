/** The kind of an entry in words, with the colour of its group: runs, receives messages, or is used by others. */

import { StatusBadge } from "../../ui/status_badge";
import type { CatalogKind } from "../../api/schema.generated";
import type { Tone } from "../../ui/tone";

const TONES: Partial<Record<CatalogKind, Tone>> = { PLAYBOOK: "good", AGENT: "good", SUBSCRIPTION: "busy" };

export function KindBadge({ kind, kindText }: { kind: CatalogKind; kindText: string }) {
  return <StatusBadge status={kindText} tone={TONES[kind] ?? "plain"} />;
}

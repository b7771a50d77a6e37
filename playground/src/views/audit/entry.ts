/** The actions that the view lists: the types of their events, the filter of the server, and an event in words. */

import type { EventFilter } from "../../api/schema.generated";
import type { ObjectKind } from "../../app/object_links";
import { textOf } from "../../ui/text_of";
import { timeOf } from "../executions/filter";
import type { AuditLogQuery } from "./operations.generated";
import type { AuditSearch } from "./search";

type LogEvent = NonNullable<AuditLogQuery["events"]>["nodes"][number];

interface Action {
  /** Name in the address. */
  value: string;
  label: string;
  /** Types of its events, also those of NoETL's server. */
  types: readonly string[];
}

const STARTED: Action = { value: "started", label: "Started", types: ["playbook_started"] };
const CHANGES: readonly Action[] = [
  { value: "cancelled", label: "Cancelled", types: ["playbook.cancelled", "playbook_cancelled", "execution.cancelled"] },
  { value: "registered", label: "Registered", types: ["subscription.registered"] },
  { value: "activated", label: "Activated", types: ["subscription.activated"] },
  { value: "paused", label: "Paused", types: ["subscription.paused"] },
  { value: "resumed", label: "Resumed", types: ["subscription.resumed"] },
  { value: "draining", label: "Drained", types: ["subscription.draining"] },
  { value: "deactivated", label: "Deactivated", types: ["subscription.deactivated"] },
];

export const ACTIONS: readonly Action[] = [...CHANGES, STARTED];

/** An action of a caller. */
export interface Entry {
  id: string;
  at: string;
  action: string;
  kind: ObjectKind;
  /** Id of the execution or source subscription. */
  objectId: string;
  path: string | null;
  /** Subject of the caller; null if the server did not identify it. */
  actor: string | null;
  reason: string | null;
  /** Execution that was run again. */
  origin: string | null;
}

/**
 * Returns the variables of the query. Without a chosen action, starts are left out: they are many, and most are those of
 * workers.
 */
export function variablesOf(search: AuditSearch, now: number): { filter: EventFilter; reasons: boolean } {
  const chosen = ACTIONS.filter(({ value }) => value === search.action);
  const since = timeOf(search.since, now);
  const until = timeOf(search.until, now);
  const filter = {
    types: (chosen.length > 0 ? chosen : CHANGES).flatMap(({ types }) => types),
    ...(search.path !== undefined && { nodeNames: [search.path] }),
    ...(since !== undefined && { createdAfter: since }),
    ...(until !== undefined && { createdBefore: until }),
  };
  return { filter, reasons: !chosen.includes(STARTED) };
}

/** Returns the action that an event describes. */
export function entryOf(event: LogEvent): Entry {
  const origin = textOf(event.meta, "rerun_of");
  const action = ACTIONS.find(({ types }) => types.includes(event.type))?.label ?? event.type;
  return {
    id: event.id,
    at: event.createdAt,
    action: origin === null ? action : "Rerun",
    kind: event.type.startsWith("subscription.") ? "subscription" : "execution",
    objectId: event.executionId,
    path: event.nodeName,
    actor: textOf(event.meta, "actor"),
    reason: textOf(event.context, "reason"),
    origin,
  };
}

/** Returns whether an action contains a text in its caller, reason, path or id. */
export function contains({ actor, reason, path, objectId }: Entry, text: string | undefined): boolean {
  return !text || `${actor ?? ""} ${reason ?? ""} ${path ?? ""} ${objectId}`.toLowerCase().includes(text.toLowerCase());
}

/** The actions that the view lists: the types of their events, the filters of the server, and an action in words. */

import type { CatalogFilter, CatalogOrder, EventFilter, ExecutionFilter } from "../../api/schema.generated";
import type { ObjectKind } from "../../ui/object_links";
import { textOf } from "../../ui/text_of";
import { timeOf } from "../executions/filter";
import type { AuditEntriesQuery, AuditLogQuery, AuditRerunsQuery } from "./operations.generated";
import type { AuditSearch } from "./search";

type LogEvent = NonNullable<AuditLogQuery["events"]>["nodes"][number];
type CatalogEntry = NonNullable<AuditEntriesQuery["catalogEntries"]>["nodes"][number];
type RerunExecution = NonNullable<AuditRerunsQuery["executions"]>["nodes"][number];

interface Action {
  /** Name in the address. */
  value: string;
  label: string;
  /** Types of its events, also those of NoETL's server. */
  types: readonly string[];
}

const STARTED: Action = { value: "started", label: "Started", types: ["playbook_started"] };
/** The events of reruns have the type of all starts, so reruns are read from the list of executions. */
const RERUN: Action = { value: "rerun", label: "Rerun", types: [] };
/** No events are written for catalog entries, so their changes are read from the lists of the catalog. */
const REGISTERED_ENTRY: Action = { value: "registered-entry", label: "Registered entry", types: [] };
const RETIRED_ENTRY: Action = { value: "retired-entry", label: "Retired entry", types: [] };
const CHANGES: readonly Action[] = [
  { value: "cancelled", label: "Cancelled", types: ["playbook.cancelled", "playbook_cancelled", "execution.cancelled"] },
  { value: "retried", label: "Retried delivery", types: ["outbox.retried"] },
  { value: "discarded", label: "Discarded delivery", types: ["outbox.discarded"] },
  { value: "registered", label: "Registered", types: ["subscription.registered"] },
  { value: "activated", label: "Activated", types: ["subscription.activated"] },
  { value: "paused", label: "Paused", types: ["subscription.paused"] },
  { value: "resumed", label: "Resumed", types: ["subscription.resumed"] },
  { value: "draining", label: "Draining", types: ["subscription.draining"] },
  { value: "deactivated", label: "Deactivated", types: ["subscription.deactivated"] },
];

export const ACTIONS: readonly Action[] = [RERUN, ...CHANGES, REGISTERED_ENTRY, RETIRED_ENTRY, STARTED];

/** An action of a caller. */
export interface Entry {
  id: string;
  at: string | null;
  action: string;
  kind: ObjectKind | "catalogEntry";
  /** Id of the execution, source subscription or catalog entry. */
  objectId: string;
  path: string | null;
  /** Version of the path, if the object is a catalog entry. */
  version: number | null;
  /** Subject of the caller; null if the server did not identify it. */
  actor: string | null;
  reason: string | null;
  /** Execution that was run again. */
  origin: string | null;
}

interface EntryList {
  order: CatalogOrder;
  filter: CatalogFilter;
}

/** Variables of the lists; null: the list is not read. */
export interface Lists {
  log: { filter: EventFilter; reasons: boolean } | null;
  reruns: { filter: ExecutionFilter } | null;
  registrations: EntryList | null;
  retirements: EntryList | null;
}

/**
 * Returns the variables of the lists. Without a chosen action, starts that are no reruns are left out: they are many, and
 * most are those of workers.
 */
export function listsOf(search: AuditSearch, now: number): Lists {
  const chosen = ACTIONS.find(({ value }) => value === search.action);
  const since = timeOf(search.since, now);
  const until = timeOf(search.until, now);
  const log = {
    types: (chosen ? [chosen] : CHANGES).flatMap(({ types }) => types),
    ...(search.path !== undefined && { nodeNames: [search.path] }),
    ...(since !== undefined && { createdAfter: since }),
    ...(until !== undefined && { createdBefore: until }),
  };
  const reruns = {
    isRerun: true,
    ...(search.path !== undefined && { path: search.path }),
    ...(since !== undefined && { startedAfter: since }),
    ...(until !== undefined && { startedBefore: until }),
  };
  const registrations = {
    ...(search.path !== undefined && { path: search.path }),
    ...(since !== undefined && { createdAfter: since }),
    ...(until !== undefined && { createdBefore: until }),
  };
  const retirements = {
    ...(search.path !== undefined && { path: search.path }),
    ...(since !== undefined && { archivedAfter: since }),
    ...(until !== undefined && { archivedBefore: until }),
  };
  const reads = (action: Action) => chosen === undefined || chosen === action;
  return {
    log: log.types.length > 0 ? { filter: log, reasons: chosen !== STARTED } : null,
    reruns: reads(RERUN) ? { filter: reruns } : null,
    registrations: reads(REGISTERED_ENTRY) ? { order: "NEWEST", filter: registrations } : null,
    retirements: reads(RETIRED_ENTRY) ? { order: "LAST_RETIRED", filter: retirements } : null,
  };
}

/** Returns the action that an event describes. */
export function entryOf(event: LogEvent): Entry {
  const origin = textOf(event.meta, "rerun_of");
  const action = ACTIONS.find(({ types }) => types.includes(event.type))?.label ?? event.type;
  return {
    id: event.id,
    at: event.createdAt,
    action: origin === null ? action : RERUN.label,
    kind: event.type.startsWith("subscription.") ? "subscription" : "execution",
    objectId: event.executionId,
    path: event.nodeName,
    version: null,
    actor: textOf(event.meta, "actor"),
    reason: textOf(event.context, "reason"),
    origin,
  };
}

/** Returns the action that started a rerun. */
export function entryOfRerun(execution: RerunExecution): Entry {
  return {
    id: `rerun ${execution.id}`,
    at: execution.startedAt,
    action: RERUN.label,
    kind: "execution",
    objectId: execution.id,
    path: execution.path,
    version: null,
    actor: execution.startedBy,
    reason: null,
    origin: execution.rerunOf?.id ?? null,
  };
}

/** Returns the registration of a catalog entry. */
export function entryOfRegistration({ catalogId, path, version, createdAt, registeredBy }: CatalogEntry): Entry {
  return {
    id: `registration ${catalogId}`,
    at: createdAt,
    action: REGISTERED_ENTRY.label,
    kind: "catalogEntry",
    objectId: catalogId,
    path,
    version,
    actor: registeredBy,
    reason: null,
    origin: null,
  };
}

/** Returns the retirement of a catalog entry. */
export function entryOfRetirement(entry: CatalogEntry): Entry {
  return {
    ...entryOfRegistration(entry),
    id: `retirement ${entry.catalogId}`,
    at: entry.archivedAt,
    action: RETIRED_ENTRY.label,
    actor: entry.archivedBy,
  };
}

/** Returns whether an action contains a text in its caller, reason, path or ids. */
export function contains({ actor, reason, path, objectId, origin }: Entry, text: string | undefined): boolean {
  const texts = [actor, reason, path, objectId, origin].filter((one) => one !== null);
  return !text || texts.join(" ").toLowerCase().includes(text.toLowerCase());
}

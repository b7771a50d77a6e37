/**
 * What the command palette finds for a text: views, the object of an id, the executions of a dedup key, catalog entries, what
 * belongs to a path, and lists of executions with a label, of a version, of a time, with the first digits of an id, or with a
 * part of an error.
 */

import { useDebouncedValue } from "@mantine/hooks";
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";

import { send } from "../api/client";
import type { ApiError, GraphqlError } from "../api/errors";
import { useApiQuery } from "../api/hooks";
import { useZone } from "../ui/clock";
import type { WrittenLabel } from "../ui/labels";
import { objectLocation } from "../ui/object_links";
import {
  FindLabelledDocument,
  FindObjectDocument,
  FindPathDocument,
  FindTextDocument,
  RecentLabelsDocument,
  type FindObjectQuery,
  type FindPathQuery,
  type FindTextQuery,
} from "./command_palette.generated";
import { useErrors } from "./find_errors";
import { useMessages } from "./find_messages";
import { executionTarget, NOTHING, type Found } from "./found";
import { NAVIGATION } from "./navigation";
import { isExecutable, lastFailuresLocation } from "./path_links";
import {
  firstDigitsTargets,
  LABEL_WITH_VALUE,
  labelTarget,
  timeTargets,
  versionTargets,
  writtenLabelTargets,
  type Target,
} from "./written_targets";

const OBJECT_ID = /^(event-\d+-\d+|catalog-\d+|outbox-\S+|\d{10,19})$/;
const TYPING_MS = 200;
/** Bounds of a text that is searched, in characters. The server's bound for a part of a path is the maximum. */
const [MIN_TEXT, MAX_TEXT] = [2, 256];
const MAX_LABEL_VALUE_BYTES = 128;
/** Time in milliseconds for which the names of labels are kept. */
const KEPT_MS = 60_000;
/** Maximum number of labels that are tried with a value. */
const MAX_LABEL_NAMES = 5;

/** Returns what a text leads to. Requests are sent when the user stops typing; those for messages if the others find nothing. */
export function useFound(query: string): Found {
  const [settled] = useDebouncedValue(query, TYPING_MS);
  const zone = useZone();
  const { absent, ...object } = useObject(settled);
  // A text that is the id of an object means that object, so nothing else is searched then.
  const text = absent ? settled : "";
  const searches = [useText(text), useObjectsOfPath(text), useLabelsWithValue(text), useErrors(text)];
  const found = [
    ...writtenLabelTargets(query),
    ...versionTargets(query),
    ...timeTargets(query, zone),
    // Enter must not open what an earlier text has found.
    ...(query === settled ? object.targets : []),
    ...viewTargets(query),
    ...(query.startsWith(settled) ? searches.flatMap(({ targets }) => targets) : []),
  ];
  const cheap = [object, ...searches];
  const foundNothing = query === settled && found.length === 0 && !cheap.some(({ loading }) => loading);
  const messages = useMessages(text, foundNothing);
  const all = [...cheap, messages];
  const targets = [...found, ...messages.targets, ...(absent ? firstDigitsTargets(query) : [])];
  return {
    targets: [...new Map(targets.map((target) => [target.key, target])).values()],
    loading: query !== settled || all.some(({ loading }) => loading),
    error: all.find(({ error }) => error !== null)?.error ?? null,
    errors: all.flatMap(({ errors }) => errors),
    unavailableShards: [...new Set(all.flatMap(({ unavailableShards }) => unavailableShards))],
  };
}

function viewTargets(query: string): Target[] {
  const words = query.toLowerCase();
  return NAVIGATION.filter((view) => `${view.title} ${view.description}`.toLowerCase().includes(words)).map((view) => ({
    key: view.to,
    label: view.title,
    description: view.description,
    location: { to: view.to },
  }));
}

/** `absent` says that no object has the text as its id. */
function useObject(query: string): Found & { absent: boolean } {
  const enabled = OBJECT_ID.test(query);
  const { data, error, isPlaceholderData } = useApiQuery(FindObjectDocument, { id: query }, { enabled });
  if (!enabled) {
    return { ...NOTHING, absent: true };
  }
  if (error || !data || isPlaceholderData) {
    return { ...NOTHING, loading: !error, error, absent: false };
  }
  const { node } = data.data;
  const absent = node === null && data.errors.length === 0;
  return { ...NOTHING, targets: node?.id === query ? objectTargets(node) : [], errors: data.errors, absent };
}

function objectTargets(node: NonNullable<FindObjectQuery["node"]>): Target[] {
  switch (node.__typename) {
    case "Execution":
      return [{ key: node.id, label: `Execution ${node.id}`, description: "Open it", location: objectLocation("execution", node.id) }];
    case "SourceSubscription":
      return [
        { key: node.id, label: `Subscription ${node.id}`, description: "Open it", location: objectLocation("subscription", node.id) },
      ];
    case "OutboxEntry":
      return [{ key: node.id, label: `Outbox entry ${node.id}`, description: "Open it", location: objectLocation("outbox", node.id) }];
    case "Event":
      return [{ key: node.id, label: `Event ${node.id}`, description: "Open it", location: { to: "/events", search: { event: node.id } } }];
    case "CatalogEntry":
      return [catalogTarget(node, `Version ${node.version}`)];
    default:
      return [];
  }
}

function catalogTarget(entry: { id: string; path: string; version: number }, description: string): Target {
  const location = { to: "/catalog/$", params: { _splat: entry.path }, search: { version: String(entry.version) } } as const;
  return { key: entry.id, label: `Catalog entry ${entry.path}`, description, location };
}

/** The execution without a parent whose dedup key is the text, and the catalog entries whose path or name contains it. */
function useText(text: string): Found {
  const enabled = text.length >= MIN_TEXT && text.length <= MAX_TEXT;
  const { data, error, isPlaceholderData } = useApiQuery(FindTextDocument, { text }, { enabled });
  if (!enabled) {
    return NOTHING;
  }
  if (error || !data || isPlaceholderData) {
    return { ...NOTHING, loading: !error, error };
  }
  return { ...NOTHING, targets: textTargets(text, data.data), errors: data.errors };
}

function textTargets(text: string, { dedupClaim, catalogEntries }: FindTextQuery): Target[] {
  const execution = dedupClaim?.execution;
  const claimed = execution ? [executionTarget(execution, `Dedup key ${text} · `)] : [];
  const entries = (catalogEntries?.nodes ?? []).flatMap((entry) => [
    catalogTarget(entry, `${entry.kindText}, version ${entry.version}`),
    ...(isExecutable(entry.kind) ? [executionsTarget(entry.path)] : []),
  ]);
  return [...claimed, ...entries, ...failureTargets(text, catalogEntries?.nodes ?? [])];
}

type FoundEntry = NonNullable<FindTextQuery["catalogEntries"]>["nodes"][number];

/** The last failures of the path that the text means: the path itself, or the only one that contains it. */
function failureTargets(text: string, entries: readonly FoundEntry[]): Target[] {
  const executable = entries.filter(({ kind }) => isExecutable(kind));
  const meant = executable.find(({ path }) => path === text) ?? (executable.length === 1 ? executable[0] : undefined);
  if (!meant) {
    return [];
  }
  const { path } = meant;
  const location = lastFailuresLocation(path);
  return [{ key: `failures ${path}`, label: `Failed in the last hour: ${path}`, description: "Open the list", location }];
}

function executionsTarget(path: string): Target {
  const location = { to: "/executions", search: { path } } as const;
  return { key: `executions ${path}`, label: `Executions of ${path}`, description: "Open the list", location };
}

function useObjectsOfPath(query: string): Found {
  const enabled = query.includes("/");
  const { data, error, isPlaceholderData } = useApiQuery(FindPathDocument, { path: query }, { enabled });
  if (!enabled) {
    return NOTHING;
  }
  if (error || !data || isPlaceholderData) {
    return { ...NOTHING, loading: !error, error };
  }
  const unavailableShards = data.data.executions?.unavailableShards ?? [];
  return { ...NOTHING, targets: pathTargets(query, data.data), errors: data.errors, unavailableShards };
}

function pathTargets(path: string, { catalogEntry, subscription, executions }: FindPathQuery): Target[] {
  const entries = catalogEntry ? [catalogTarget(catalogEntry, `${catalogEntry.kindText}, version ${catalogEntry.version}`)] : [];
  const found = [...entries, ...(executions?.nodes ?? []).map((execution) => executionTarget(execution))];
  if (!subscription) {
    return found;
  }
  const label = `Subscription ${path}`;
  const description = `${subscription.status.toLowerCase()} · ${subscription.id}`;
  return [{ key: subscription.id, label, description, location: objectLocation("subscription", subscription.id) }, ...found];
}

/** Labels whose name or value is the text. Their names are those of the newest executions. */
function useLabelsWithValue(text: string): Found {
  const queries = useQueryClient();
  const bytes = new TextEncoder().encode(text).length;
  const enabled = text.length >= MIN_TEXT && bytes <= MAX_LABEL_VALUE_BYTES && !LABEL_WITH_VALUE.test(text);
  const { data, error } = useQuery<LabelsOfText, ApiError>({
    queryKey: ["labels of a text", text],
    queryFn: ({ signal }) => labelsOf(queries, text, signal),
    enabled,
  });
  if (!enabled) {
    return NOTHING;
  }
  if (!data) {
    return { ...NOTHING, loading: !error, error };
  }
  const { labels, ...missing } = data;
  return { ...NOTHING, targets: labels.map((label) => labelTarget([label])), ...missing };
}

interface LabelsOfText {
  labels: readonly WrittenLabel[];
  errors: readonly GraphqlError[];
  unavailableShards: readonly number[];
}

async function labelsOf(queries: QueryClient, text: string, signal: AbortSignal): Promise<LabelsOfText> {
  const { data: recent, errors } = await queries.fetchQuery({
    queryKey: ["names of labels"],
    queryFn: () => send(RecentLabelsDocument, {}),
    staleTime: KEPT_MS,
    // The query of the text tries again.
    retry: false,
  });
  const labels = (recent.executions?.nodes ?? []).flatMap((execution) => execution.labels ?? []);
  const names = [...new Set(labels.map(({ name }) => name))];
  const tried = names.slice(0, MAX_LABEL_NAMES);
  const replies = await Promise.all(
    tried.map((name) => send(FindLabelledDocument, { labels: [{ name, equals: text }] }, signal)),
  );
  const withValue = tried.filter((_, index) => (replies[index]?.data.executions?.nodes.length ?? 0) > 0);
  const lists = [recent.executions, ...replies.map(({ data }) => data.executions)];
  return {
    labels: [
      ...names.filter((name) => name === text).map((name) => ({ name, value: undefined })),
      ...withValue.map((name) => ({ name, value: text })),
    ],
    errors: [errors, ...replies.map((reply) => reply.errors)].flat(),
    unavailableShards: lists.flatMap((list) => list?.unavailableShards ?? []),
  };
}

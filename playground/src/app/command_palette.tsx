/** The command palette (Ctrl K): opens a view, the object of a pasted id, or the executions of a path. */

import { Spotlight, spotlight } from "@mantine/spotlight";
import "@mantine/spotlight/styles.layer.css";
import { useDebouncedValue } from "@mantine/hooks";
import { useNavigate, type NavigateOptions } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import type { ApiError, GraphqlError } from "../api/errors";
import { useApiQuery } from "../api/hooks";
import { Failure, PartialData } from "../ui/states";
import {
  FindObjectDocument,
  FindPathDocument,
  type FindObjectQuery,
  type FindPathQuery,
} from "./command_palette.generated";
import { NAVIGATION } from "./navigation";
import { objectLocation } from "./object_links";

const OBJECT_ID = /^(event-\d+-\d+|catalog-\d+|outbox-\S+|\d{10,19})$/;
const TYPING_MS = 200;
const NAME = "Go to a view, an id or a path";

interface Target {
  key: string;
  label: string;
  description: string;
  location: NavigateOptions;
}

/** What a search found, and why it may have found too little. */
interface Found {
  targets: Target[];
  error: ApiError | null;
  errors: readonly GraphqlError[];
  unavailableShards: readonly number[];
}

const NOTHING: Found = { targets: [], error: null, errors: [], unavailableShards: [] };

/** Opens when the number of the user's requests for it changes. Only the library's store says whether it is open. */
export default function CommandPalette({ requests }: { requests: number }) {
  const [query, setQuery] = useState("");
  const { targets, error, ...missing } = useFound(query.trim());
  const complete = !error && missing.errors.length === 0 && missing.unavailableShards.length === 0;
  const navigate = useNavigate();
  useEffect(() => spotlight.open(), [requests]);
  return (
    <Spotlight.Root query={query} onQueryChange={setQuery} shortcut={null} attributes={{ content: { "aria-label": NAME } }}>
      <Spotlight.Search placeholder={NAME} aria-label={NAME} />
      <Spotlight.ActionsList>
        {targets.map((target) => (
          <Spotlight.Action
            key={target.key}
            label={target.label}
            description={target.description}
            onClick={() => void navigate(target.location)}
          />
        ))}
        {error && <Failure error={error} />}
        <PartialData {...missing} />
        {complete && targets.length === 0 && <Spotlight.Empty>Nothing found. Paste an id, or type a path or a view.</Spotlight.Empty>}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

function useFound(query: string): Found {
  const [settled] = useDebouncedValue(query, TYPING_MS);
  const object = useObject(settled);
  const ofPath = useObjectsOfPath(settled);
  return {
    targets: [...object.targets, ...viewTargets(query), ...ofPath.targets],
    error: object.error ?? ofPath.error,
    errors: [...object.errors, ...ofPath.errors],
    unavailableShards: ofPath.unavailableShards,
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

function useObject(query: string): Found {
  const enabled = OBJECT_ID.test(query);
  const { data, error } = useApiQuery(FindObjectDocument, { id: query }, { enabled });
  if (!enabled) {
    return NOTHING;
  }
  const node = data?.data.node;
  return { ...NOTHING, targets: node?.id === query ? objectTargets(node) : [], error, errors: data?.errors ?? [] };
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

function useObjectsOfPath(query: string): Found {
  const enabled = query.includes("/");
  const { data, error } = useApiQuery(FindPathDocument, { path: query }, { enabled });
  if (!enabled) {
    return NOTHING;
  }
  if (error || !data) {
    return { ...NOTHING, error };
  }
  const unavailableShards = data.data.executions?.unavailableShards ?? [];
  return { ...NOTHING, targets: pathTargets(query, data.data), errors: data.errors, unavailableShards };
}

function pathTargets(path: string, { catalogEntry, subscription, executions }: FindPathQuery): Target[] {
  const entries = catalogEntry ? [catalogTarget(catalogEntry, `${catalogEntry.kindText}, version ${catalogEntry.version}`)] : [];
  const runs = (executions?.nodes ?? []).map((execution) => ({
    key: execution.id,
    label: `Execution ${execution.id}`,
    description: `${execution.path ?? ""} · ${execution.status.toLowerCase()}`,
    location: objectLocation("execution", execution.id),
  }));
  const found = [...entries, ...runs];
  if (!subscription) {
    return found;
  }
  const label = `Subscription ${path}`;
  const description = `${subscription.status.toLowerCase()} · ${subscription.id}`;
  return [{ key: subscription.id, label, description, location: objectLocation("subscription", subscription.id) }, ...found];
}

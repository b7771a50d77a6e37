/** The command palette (Ctrl K): opens a view, the object of a pasted id, or the executions of a path. */

import { Spotlight, spotlight } from "@mantine/spotlight";
import "@mantine/spotlight/styles.layer.css";
import { useDebouncedValue } from "@mantine/hooks";
import { useNavigate, type NavigateOptions } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { useApiQuery } from "../api/hooks";
import { FindObjectDocument, FindPathDocument } from "./command_palette.generated";
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

export default function CommandPalette({ onClose }: { onClose: () => void }) {
  const [query, setQuery] = useState("");
  const targets = useTargets(query.trim());
  const navigate = useNavigate();
  useEffect(() => spotlight.open(), []);
  return (
    <Spotlight.Root
      query={query}
      onQueryChange={setQuery}
      onSpotlightClose={onClose}
      shortcut={null}
      attributes={{ content: { "aria-label": NAME } }}
    >
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
        {targets.length === 0 && <Spotlight.Empty>Nothing found. Paste an id, or type a path or a view.</Spotlight.Empty>}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

function useTargets(query: string): Target[] {
  const [settled] = useDebouncedValue(query, TYPING_MS);
  const objects = useObjectTargets(settled);
  const executions = usePathTargets(settled);
  return [...objects, ...viewTargets(query), ...executions];
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

function useObjectTargets(query: string): Target[] {
  const enabled = OBJECT_ID.test(query);
  const { data } = useApiQuery(FindObjectDocument, { id: query }, { enabled });
  const node = data?.data.node;
  if (!enabled || !node || node.id !== query) {
    return [];
  }
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

function usePathTargets(query: string): Target[] {
  const enabled = query.includes("/");
  const { data } = useApiQuery(FindPathDocument, { path: query }, { enabled });
  if (!enabled || !data) {
    return [];
  }
  const { catalogEntry, subscription, executions } = data.data;
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
  const label = `Subscription ${query}`;
  const description = `${subscription.status.toLowerCase()} · ${subscription.id}`;
  return [{ key: subscription.id, label, description, location: objectLocation("subscription", subscription.id) }, ...found];
}

import type { GraphiQLProps } from "graphiql";

import catalog from "./catalog.graphql?raw";
import catalogVariables from "./catalog.jsonc?raw";
import execute from "./execute_with_dedup.graphql?raw";
import executeVariables from "./execute_with_dedup.jsonc?raw";
import lifecycle from "./lifecycle.graphql?raw";
import lifecycleVariables from "./lifecycle.jsonc?raw";
import liveEvents from "./live_events.graphql?raw";
import liveEventsVariables from "./live_events.jsonc?raw";
import overview from "./overview.graphql?raw";

type Tab = NonNullable<GraphiQLProps["defaultTabs"]>[number];

const FIRST_TAB = { query: lifecycle, variables: lifecycleVariables };

/** One tab per use case. GraphiQL names a tab after its first operation, and restores a returning visitor's tabs. */
export const DEFAULT_TABS: Tab[] = [
  FIRST_TAB,
  { query: execute, variables: executeVariables },
  { query: liveEvents, variables: liveEventsVariables },
  { query: overview },
  { query: catalog, variables: catalogVariables },
];

/**
 * Returns the content of the variables editor for a first visit; undefined for a returning visitor, whose stored
 * variables it would overwrite. GraphiQL takes the first tab's query from `defaultTabs`, but not its variables.
 */
export function initialVariables(storage: Storage): string | undefined {
  return storage.getItem("graphiql:tabState") === null ? FIRST_TAB.variables : undefined;
}

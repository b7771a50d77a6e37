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

/** One tab per use case. GraphiQL titles a tab by its first operation, and keeps a returning visitor's own tabs. */
export const DEFAULT_TABS: Tab[] = [
  FIRST_TAB,
  { query: execute, variables: executeVariables },
  { query: liveEvents, variables: liveEventsVariables },
  { query: overview },
  { query: catalog, variables: catalogVariables },
];

/**
 * The variables editor's content on a first visit. GraphiQL takes the first tab's query from `defaultTabs` but leaves
 * its variables out, and a value given to a returning visitor would overwrite what they left there.
 */
export function initialVariables(storage: Storage): string | undefined {
  return storage.getItem("graphiql:tabState") === null ? FIRST_TAB.variables : undefined;
}

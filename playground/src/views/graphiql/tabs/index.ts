import type { GraphiQLProps } from "graphiql";

import catalog from "./catalog.graphql?raw";
import catalogVariables from "./catalog.jsonc?raw";
import execute from "./execute_with_dedup.graphql?raw";
import executeVariables from "./execute_with_dedup.jsonc?raw";
import labelsAndHistory from "./labels_and_history.graphql?raw";
import labelsAndHistoryVariables from "./labels_and_history.jsonc?raw";
import lifecycle from "./lifecycle.graphql?raw";
import lifecycleVariables from "./lifecycle.jsonc?raw";
import liveEvents from "./live_events.graphql?raw";
import liveEventsVariables from "./live_events.jsonc?raw";
import overview from "./overview.graphql?raw";

type Tab = NonNullable<GraphiQLProps["defaultTabs"]>[number];

/** Length of a day in milliseconds. */
const DAY_MS = 86_400_000;

const FIRST_TAB = { query: lifecycle, variables: lifecycleVariables };

/** One tab per use case. GraphiQL names a tab after its first operation, and restores a returning visitor's tabs. */
export const DEFAULT_TABS: Tab[] = [
  FIRST_TAB,
  { query: execute, variables: executeVariables },
  { query: labelsAndHistory, variables: withTimes(labelsAndHistoryVariables, Date.now()) },
  { query: liveEvents, variables: liveEventsVariables },
  { query: overview },
  { query: catalog, variables: catalogVariables },
];

/** Returns variables with the times that they describe, as seen at `now` (in milliseconds). */
function withTimes(variables: string, now: number): string {
  const times = { "<24 hours ago>": now - DAY_MS, "<now>": now };
  return Object.entries(times).reduce((text, [name, at]) => text.replace(name, new Date(at).toISOString()), variables);
}

/**
 * Returns the content of the editors of the tab that is shown first: of the stored tab that was shown last, or of the
 * first tab. GraphiQL takes only its query from the tabs. Without its variables, the editor would be empty after a reload.
 */
export function initialContent(storage: Storage): Pick<GraphiQLProps, "initialQuery" | "initialVariables"> {
  const tab = storedTab(storage.getItem("graphiql:tabState"));
  return tab ? { initialQuery: tab.query ?? "", initialVariables: tab.variables ?? "" } : { initialVariables: FIRST_TAB.variables };
}

function storedTab(text: string | null): Partial<Tab> | undefined {
  try {
    const { tabs, activeTabIndex } = JSON.parse(text ?? "{}") as { tabs?: Partial<Tab>[]; activeTabIndex?: number };
    return tabs?.[activeTabIndex ?? 0];
  } catch {
    return undefined;
  }
}

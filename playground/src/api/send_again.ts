/** Sends queries again after a change. */

import type { QueryClient, QueryFilters } from "@tanstack/react-query";

/**
 * Sends queries again (default: all on the page), and waits for their results. A query that waits for its first result is sent
 * again after it: the server may have read it before the change, and TanStack Query would keep it.
 */
export async function sendAgain(client: QueryClient, filters: QueryFilters = {}): Promise<void> {
  const loading = client.getQueryCache().findAll({
    ...filters,
    fetchStatus: "fetching",
    predicate: ({ state }) => state.data === undefined,
  });
  await client.invalidateQueries(filters);
  await Promise.all(
    loading.map(({ queryKey }) => client.invalidateQueries({ queryKey, exact: true }, { cancelRefetch: false })),
  );
}

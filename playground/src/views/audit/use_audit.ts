/** Reads the lists of the server in pages, and merges them. */

import { useApiPages } from "../../api/hooks";
import type { CatalogOrder } from "../../api/schema.generated";
import type { Pages } from "../../ui/more_rows";
import { entryOf, entryOfRegistration, entryOfRerun, entryOfRetirement, type Lists } from "./entry";
import { newestFirst } from "./newest_first";
import { AuditEntriesDocument, AuditLogDocument, AuditRerunsDocument } from "./operations.generated";

const OPTIONS = { every: 5_000, firstPageOnly: true };

export function useAudit({ log, reruns, registrations, retirements }: Lists) {
  const logList = useApiPages(AuditLogDocument, log ?? { filter: {}, reasons: false }, (data) => data.events, {
    ...OPTIONS,
    enabled: log !== null,
  });
  const rerunList = useApiPages(AuditRerunsDocument, reruns ?? { filter: {} }, (data) => data.executions, {
    ...OPTIONS,
    enabled: reruns !== null,
  });
  const registrationList = useEntries(registrations, "NEWEST");
  const retirementList = useEntries(retirements, "LAST_RETIRED");
  // A list that is not read may still have the nodes of an earlier filter.
  const parts = [
    ...(log ? [{ ...logList, entries: logList.nodes.map(entryOf) }] : []),
    ...(reruns ? [{ ...rerunList, entries: rerunList.nodes.map(entryOfRerun) }] : []),
    ...(registrations ? [{ ...registrationList, entries: registrationList.nodes.map(entryOfRegistration) }] : []),
    ...(retirements ? [{ ...retirementList, entries: retirementList.nodes.map(entryOfRetirement) }] : []),
  ];
  const { entries, next } = newestFirst(parts.map((part) => ({ entries: part.entries, hasMore: part.query.hasNextPage })));
  const queries = parts.map(({ query }) => query);
  const pages: Pages = {
    hasNextPage: next !== null,
    isFetchingNextPage: queries.some(({ isFetchingNextPage }) => isFetchingNextPage),
    fetchNextPage: () => next !== null && queries[next]?.fetchNextPage(),
    dataUpdatedAt: Math.min(...queries.map(({ dataUpdatedAt }) => dataUpdatedAt)),
    isError: queries.some(({ isError }) => isError),
  };
  return {
    entries,
    pages,
    /** Whether each list was read, or failed. */
    isRead: queries.every(({ data, error }) => data !== undefined || error !== null),
    isLong: queries.some(({ data }) => (data?.pages.length ?? 0) > 1),
    failed: queries.find(({ error }) => error !== null),
    unavailableShards: [...new Set(parts.flatMap((part) => part.unavailableShards))],
    errors: parts.flatMap((part) => part.errors),
  };
}

/** Reads a list of catalog entries, unless its variables are null. */
function useEntries(variables: Lists["registrations"], order: CatalogOrder) {
  return useApiPages(AuditEntriesDocument, variables ?? { order, filter: {} }, (data) => data.catalogEntries, {
    ...OPTIONS,
    enabled: variables !== null,
  });
}

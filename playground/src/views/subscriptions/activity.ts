/** Work of subscriptions, read every five seconds: executions, their rate and backlog, duplicate messages, and the newest event. */

import { useQueries, type UseQueryResult } from "@tanstack/react-query";

import { send, type Reply } from "../../api/client";
import { SubscriptionActivityDocument, type SubscriptionActivityQuery } from "./operations.generated";

type Node = NonNullable<SubscriptionActivityQuery["nodes"]>[number];
export type Activity = Extract<Node, { __typename: "SourceSubscription" }>;

/** Type of the events about duplicate messages. */
export const DUPLICATES = "subscription.message.deduplicated";

const EVERY_MS = 5_000;
const RATE_MS = 60_000;
/** Subscriptions in one request. */
const CHUNK = 50;

/** Returns the work of subscriptions by id. An id is missing until its figures are read. */
export function useActivities(ids: readonly string[]): ReadonlyMap<string, Activity> {
  const chunks = Array.from({ length: Math.ceil(ids.length / CHUNK) }, (_, place) => ids.slice(place * CHUNK, (place + 1) * CHUNK));
  return useQueries({
    queries: chunks.map((chunk) => ({
      queryKey: [SubscriptionActivityDocument.toString(), chunk],
      queryFn: ({ signal }: { signal: AbortSignal }) => send(SubscriptionActivityDocument, activityVariables(chunk), signal),
      refetchInterval: EVERY_MS,
    })),
    combine: byId,
  });
}

/** Returns the variables of the query. The rate is that of the last minute. */
export function activityVariables(ids: readonly string[]) {
  return { ids: [...ids], since: new Date(Date.now() - RATE_MS).toISOString() };
}

function byId(results: readonly UseQueryResult<Reply<SubscriptionActivityQuery>>[]): ReadonlyMap<string, Activity> {
  const nodes = results.flatMap(({ data }) => data?.data.nodes ?? []);
  const found = nodes.filter((node) => node?.__typename === "SourceSubscription");
  return new Map(found.map((activity) => [activity.id, activity]));
}

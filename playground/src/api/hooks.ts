/** React hooks for operations. TanStack Query keeps the replies and sends equal requests once. */

import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { send, type Reply, type TypedDocument } from "./client";
import type { ApiError } from "./errors";
import { sendAgain } from "./send_again";

export interface QueryOptions {
  /** Interval in milliseconds after which the query is sent again, unless the server refused its input. */
  every?: number;
  enabled?: boolean;
}

export interface PagesOptions extends QueryOptions {
  /** Whether `every` ends while more than one page is loaded, because all pages are read again (default false). */
  firstPageOnly?: boolean;
}

/** Returns the time after which a query is sent again; `false`: never. An input that was refused is refused again. */
function interval(error: ApiError | null, { every }: QueryOptions): number | false {
  return every === undefined || error?.code === "INVALID_INPUT" ? false : every;
}

/** Runs a query. While changed variables load, the result before them stays. */
export function useApiQuery<Data, Variables>(
  document: TypedDocument<Data, Variables>,
  variables: Variables,
  options: QueryOptions = {},
) {
  return useQuery<Reply<Data>, ApiError>({
    queryKey: [document.toString(), variables],
    queryFn: ({ signal }) => send(document, variables, signal),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => interval(state.error, options),
    ...(options.enabled !== undefined && { enabled: options.enabled }),
  });
}

export interface Connection<Node> {
  nodes: readonly Node[];
  pageInfo: { hasNextPage: boolean; endCursor: string | null };
  unavailableShards: readonly number[];
}

/** Runs a query of a list in pages. `select` returns the list of a reply; null if the server could not return it. */
export function useApiPages<Data, Variables extends { after?: string | null | undefined }, Node>(
  document: TypedDocument<Data, Variables>,
  variables: Omit<Variables, "after">,
  select: (data: Data) => Connection<Node> | null,
  options: PagesOptions = {},
) {
  const query = useInfiniteQuery<Reply<Data>, ApiError, { pages: Reply<Data>[] }, readonly unknown[], string | null>({
    queryKey: [document.toString(), variables, "pages"],
    queryFn: ({ signal, pageParam }) => send(document, { ...variables, after: pageParam } as Variables, signal),
    initialPageParam: null,
    getNextPageParam: (reply) => {
      const page = select(reply.data)?.pageInfo;
      return page?.hasNextPage ? page.endCursor : undefined;
    },
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) =>
      options.firstPageOnly && (state.data?.pages.length ?? 0) > 1 ? false : interval(state.error, options),
    ...(options.enabled !== undefined && { enabled: options.enabled }),
  });
  const pages = query.data?.pages ?? [];
  const lists = pages.map((reply) => select(reply.data)).filter((list) => list !== null);
  return {
    query,
    nodes: lists.flatMap((list) => list.nodes),
    unavailableShards: [...new Set(lists.flatMap((list) => list.unavailableShards))],
    errors: pages.flatMap((reply) => reply.errors),
  };
}

/** Returns a mutation. After it ends, every query on the page is sent again, because the mutation may have changed it. */
export function useApiMutation<Data, Variables>(document: TypedDocument<Data, Variables>) {
  const queries = useQueryClient();
  return useMutation<Reply<Data>, ApiError, Variables>({
    mutationFn: (variables) => send(document, variables),
    onSettled: () => sendAgain(queries),
  });
}

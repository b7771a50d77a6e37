/**
 * The executions of a dedup key that source subscriptions started. A key belongs to its parent, so each subscription is asked,
 * with a request each. So this search comes last, and begins when the text has not changed for a while.
 */

import { useDebouncedValue } from "@mantine/hooks";
import { useQueries, type UseQueryOptions } from "@tanstack/react-query";

import { send, type Reply } from "../api/client";
import type { ApiError } from "../api/errors";
import { useApiQuery } from "../api/hooks";
import { FindMessageDocument, LiveSubscriptionsDocument, type FindMessageQuery } from "./command_palette.generated";
import { REST_MS } from "./find_errors";
import { executionTarget, NOTHING, type Found } from "./found";

/**
 * A text that is looked up as a key: without spaces, too long for the beginning of a word, and with a digit, which the keys of
 * messages have and most words have not.
 */
const KEY = /^(?=.*\d)\S{4,256}$/;

/**
 * Returns the executions whose dedup key is the text, if they are wanted. The errors of one subscription do not hide what the
 * others have.
 */
export function useMessages(text: string, wanted: boolean): Found {
  const [rested] = useDebouncedValue(text, REST_MS);
  const isKey = wanted && KEY.test(text);
  const enabled = isKey && rested === text;
  const { data, error, isFetching } = useApiQuery(LiveSubscriptionsDocument, {}, { enabled });
  const subscriptions = enabled ? (data?.data.subscriptions?.nodes ?? []) : [];
  const replies = useQueries({ queries: subscriptions.map(({ id }) => messageQuery(text, id)) });
  if (!isKey) {
    return NOTHING;
  }
  if (!enabled) {
    return { ...NOTHING, loading: true };
  }
  const lists = [data?.data.subscriptions, ...replies.map((reply) => reply.data?.data.executions)];
  return {
    targets: subscriptions.flatMap(({ path }, index) =>
      (replies[index]?.data?.data.executions?.nodes ?? []).map((execution) =>
        executionTarget(execution, `Dedup key ${text} of ${path} · `),
      ),
    ),
    loading: isFetching || replies.some(({ isPending }) => isPending),
    error: error ?? replies.find((reply) => reply.error !== null)?.error ?? null,
    errors: [...(data?.errors ?? []), ...replies.flatMap((reply) => reply.data?.errors ?? [])],
    unavailableShards: lists.flatMap((list) => list?.unavailableShards ?? []),
  };
}

function messageQuery(key: string, parent: string): UseQueryOptions<Reply<FindMessageQuery>, ApiError> {
  return {
    queryKey: [FindMessageDocument.toString(), key, parent],
    queryFn: ({ signal }) => send(FindMessageDocument, { key, parent }, signal),
  };
}

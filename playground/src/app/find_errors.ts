/**
 * The failed executions whose error contains a text. The server reads up to 5,000 errors of each shard for it, so this search
 * begins when the text has not changed for a while.
 */

import { useDebouncedValue } from "@mantine/hooks";

import { useApiQuery } from "../api/hooks";
import { FindErrorDocument } from "./command_palette.generated";
import { executionTarget, NOTHING, type Found } from "./found";

/** Time in milliseconds for which a text has not changed. It is longer than the pause of a slow typist between two keys. */
export const REST_MS = 500;
/** Bounds of the text. The server has the same. */
const [MIN_BYTES, MAX_BYTES] = [3, 200];

/** Returns the list of the executions, and the newest of them. */
export function useErrors(text: string): Found {
  const [rested] = useDebouncedValue(text, REST_MS);
  const bytes = new TextEncoder().encode(text).length;
  const isPart = bytes >= MIN_BYTES && bytes <= MAX_BYTES;
  const { data, error, isPlaceholderData } = useApiQuery(FindErrorDocument, { text }, { enabled: isPart && rested === text });
  if (!isPart) {
    return NOTHING;
  }
  if (error || !data || isPlaceholderData) {
    return { ...NOTHING, loading: !error, error };
  }
  const { nodes = [], unavailableShards = [] } = data.data.executions ?? {};
  const list = {
    key: `error ${text}`,
    label: `Failed executions whose error contains ${text}`,
    description: "Open the list",
    location: { to: "/executions", search: { error: text } },
  } as const;
  const targets = nodes.length > 0 ? [list, ...nodes.map((execution) => executionTarget(execution, "Its error has the text · "))] : [];
  return { ...NOTHING, targets, errors: data.errors, unavailableShards };
}

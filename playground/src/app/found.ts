/** What a search of the command palette found. */

import type { ApiError, GraphqlError } from "../api/errors";
import { objectLocation } from "../ui/object_links";
import type { Target } from "./written_targets";

/** What a search found, and why it may have found too little. */
export interface Found {
  targets: Target[];
  /** Whether a request for the text is under way or comes when the user stops typing. */
  loading: boolean;
  error: ApiError | null;
  errors: readonly GraphqlError[];
  unavailableShards: readonly number[];
}

export const NOTHING: Found = { targets: [], loading: false, error: null, errors: [], unavailableShards: [] };

export function executionTarget({ id, path, status }: { id: string; path: string | null; status: string }, before = ""): Target {
  const description = `${before}${path ?? ""} · ${status.toLowerCase()}`;
  return { key: id, label: `Execution ${id}`, description, location: objectLocation("execution", id) };
}

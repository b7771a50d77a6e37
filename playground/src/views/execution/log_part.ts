/** Reads the events around a place of a long log, and not those between it and the end. */

import { send } from "../../api/client";
import { ApiError } from "../../api/errors";
import type { LogPart } from "./log_pages";
import { findPlace, type LogSource, type Mark } from "./log_search";
import {
  ExecutionLogAroundDocument,
  ExecutionLogCountDocument,
  ExecutionLogFromDocument,
  type LogEventFragment,
} from "./operations.generated";

/** Returns the events around a place, counted from 0; null if there is none. `first` and `end` are those of `findPlace`. */
export async function readPart(
  id: string,
  place: number,
  first: number,
  end: Mark,
  signal: AbortSignal,
): Promise<LogPart<LogEventFragment> | null> {
  const found = await findPlace(sourceOf(id, signal), place, first, end);
  if (!found) {
    return null;
  }
  const { data } = await send(ExecutionLogAroundDocument, { id, cursor: found.cursor }, signal);
  const before = data.before?.nodes ?? [];
  return { place: place - before.length, events: [...before, found.node, ...(data.after?.nodes ?? [])] };
}

function sourceOf(id: string, signal: AbortSignal): LogSource<LogEventFragment> {
  return {
    async countBefore(time) {
      const { data, errors } = await send(ExecutionLogCountDocument, { id, before: new Date(time).toISOString() }, signal);
      const count = data.events?.totalCount?.value;
      if (count === undefined) {
        throw ApiError.of(errors);
      }
      return count;
    },
    async pageFrom(time, after) {
      const from = time === null ? null : new Date(time).toISOString();
      const { data } = await send(ExecutionLogFromDocument, { id, from, after }, signal);
      const { edges = [], pageInfo } = data.events ?? {};
      return { found: edges, next: pageInfo?.hasNextPage ? pageInfo.endCursor : null };
    },
  };
}

/**
 * All steps of an execution. Its state has the first 100 steps; the following pages are read up to a limit, and again
 * while the execution runs. The order of the steps is that of their first events, so the first pages keep their steps.
 */

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { send } from "../../api/client";
import type { ApiError } from "../../api/errors";
import type { Execution, StepState } from "./live_execution";
import { ExecutionMomentStepsDocument, ExecutionStepsDocument } from "./operations.generated";

export const MAX_STEPS = 1_000;
const REFRESH_MS = 3_000;

interface Following {
  nodes: readonly StepState[];
  /** Whether the execution has more steps than were read. */
  more: boolean;
}

/** Returns the execution with all of its steps up to the limit, at the moment after an event; undefined: now. */
export function useAllSteps(execution: Execution, event?: string): { execution: Execution; error: ApiError | null } {
  const { id, endedAt, steps } = execution;
  const cursor = steps?.pageInfo.hasNextPage && steps.nodes.length < MAX_STEPS ? steps.pageInfo.endCursor : null;
  const running = endedAt === null && event === undefined;
  const { data, error } = useQuery<Following, ApiError>({
    queryKey: [ExecutionStepsDocument.toString(), id, event, endedAt],
    queryFn: ({ signal }) => readFrom(id, event, cursor, MAX_STEPS - (steps?.nodes.length ?? 0), signal),
    enabled: cursor !== null,
    refetchInterval: running && REFRESH_MS,
    placeholderData: (before, query) => (query?.queryKey[1] === id ? before : undefined),
  });
  const complete = useMemo(() => (data && cursor !== null ? withFollowing(execution, data) : execution), [execution, data, cursor]);
  return { execution: complete, error: cursor === null ? null : error };
}

async function readFrom(
  id: string,
  event: string | undefined,
  start: string | null,
  most: number,
  signal: AbortSignal,
): Promise<Following> {
  const nodes: StepState[] = [];
  let after = start;
  while (after !== null && nodes.length < most) {
    const page = await readPage(id, event, after, signal);
    if (!page) {
      return { nodes, more: true };
    }
    nodes.push(...page.nodes);
    after = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : null;
  }
  return { nodes, more: after !== null };
}

async function readPage(id: string, event: string | undefined, after: string, signal: AbortSignal) {
  if (event === undefined) {
    const { data } = await send(ExecutionStepsDocument, { id, after }, signal);
    return data.execution?.steps;
  }
  const { data } = await send(ExecutionMomentStepsDocument, { id, event, after }, signal);
  return data.executionState?.steps;
}

/** A step of a later page can be in the first page too, if the pages were read at different times. */
function withFollowing(execution: Execution, { nodes, more }: Following): Execution {
  const first = execution.steps?.nodes ?? [];
  const known = new Set(first.map(({ name }) => name));
  const all = [...first, ...nodes.filter(({ name }) => !known.has(name))];
  return { ...execution, steps: { nodes: all, pageInfo: { hasNextPage: more, endCursor: null } } };
}

/**
 * An action on all executions that match a filter: a button, and the dialog that first shows what the action would do. The
 * dry run lists the ids of the executions. The action is carried out for exactly these, in batches.
 */

import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useRef, useState, type ReactNode } from "react";

import { send } from "../../api/client";
import { newDedupKey } from "../../api/dedup_key";
import { ApiError, toApiError } from "../../api/errors";
import type { Capability, ExecutionFilter } from "../../api/schema.generated";
import { BulkActionDialog, type BulkOutcome, type BulkRequest } from "../../ui/bulk_action_dialog";
import { formatNumber } from "../../ui/format";
import { PermittedButton } from "../../ui/permitted_button";
import { SelectedExecutionsDocument } from "./operations.generated";

const route = getRouteApi("/executions");
/** Maximum number of executions that an action selects, as many as an export has rows. */
const MAX_SELECTED = 10_000;
const NO_FILTER = "Set a filter first. The action changes the executions that match it.";

/** Result for a batch. */
export interface BatchOutcome extends BulkOutcome {
  /** Whether a repeated request would change nothing more. */
  complete: boolean;
  /** Whether an earlier request with the key changed some of them (default false). */
  repeated?: boolean;
}

interface Props {
  filter: ExecutionFilter;
  /** Returns the filter of the executions that the action can change; null if it can change none (default: all that match). */
  narrow?: (filter: ExecutionFilter) => ExecutionFilter | null;
  capability: Capability;
  icon: ReactNode;
  /** Text of the button in the view. */
  label: string;
  title: string;
  /** Text of the button in the dialog. */
  action: string;
  description: string;
  dangerous: boolean;
  withReason: boolean;
  /** Maximum number of executions in one request. */
  batchSize: number;
  /** Carries out the action for some executions. The key is the same until the action was carried out for all of them. */
  carryOut: (ids: string[], request: BulkRequest, key: string) => Promise<BatchOutcome>;
}

/** Executions that the dry run has listed. */
interface Selection {
  ids: readonly string[];
  unavailableShards: readonly number[];
}

const NOTHING: Selection = { ids: [], unavailableShards: [] };

export function FilteredAction({ filter, narrow, capability, icon, label, batchSize, carryOut, ...dialog }: Props) {
  const [opened, setOpened] = useState(false);
  const queries = useQueryClient();
  const { order: _, ...search } = route.useSearch();
  const key = usePendingKey(`noetl.executions.${label} ${JSON.stringify(search)}`);
  const selection = useRef(NOTHING);

  function open() {
    key.begin();
    setOpened(true);
  }

  async function run(request: BulkRequest): Promise<BulkOutcome> {
    const { dryRun, report, signal } = request;
    if (dryRun) {
      selection.current = await select(narrow ? narrow(filter) : filter, request);
    } else {
      key.keep();
    }
    const { ids, unavailableShards } = selection.current;
    const outcomes: BatchOutcome[] = [];
    let error: ApiError | undefined;
    let sent = 0;
    while (sent < ids.length && !signal.aborted && !error) {
      report(`${formatNumber(sent)} of ${formatNumber(ids.length)} executions`);
      try {
        outcomes.push(await carryOut(ids.slice(sent, sent + batchSize), request, key.value()));
        sent = Math.min(sent + batchSize, ids.length);
      } catch (fault) {
        error = toApiError(fault);
      }
    }
    const total = sum(outcomes, unavailableShards);
    if (!dryRun) {
      if (sent === ids.length && total.unavailableShards.length === 0 && outcomes.every(({ complete }) => complete)) {
        key.forget();
      }
      void queries.invalidateQueries();
    }
    if (error && (dryRun || outcomes.length === 0)) {
      throw error;
    }
    const startAgain = dryRun && isRepeated(outcomes) ? key.replace : undefined;
    return { ...total, open: ids.length - sent, error, startAgain };
  }

  return (
    <>
      <PermittedButton
        capability={capability}
        variant="default"
        leftSection={icon}
        onClick={open}
        {...(Object.keys(filter).length === 0 && { refusal: NO_FILTER })}
      >
        {label}
      </PermittedButton>
      <BulkActionDialog opened={opened} {...dialog} run={run} onClose={() => setOpened(false)} />
    </>
  );
}

/** Returns whether an action would change nothing because earlier requests with its key did. */
function isRepeated(outcomes: readonly BatchOutcome[]): boolean {
  return outcomes.some(({ repeated }) => repeated) && !outcomes.some(({ items }) => items.some(({ applied }) => applied));
}

/**
 * The dedup key of an action. From the first request that changes something until the action is complete, the browser keeps it
 * for the tab, so that the action can be repeated after the view was closed.
 */
function usePendingKey(name: string) {
  const key = useRef("");
  const forget = () => window.sessionStorage.removeItem(name);
  return {
    begin: () => {
      key.current = window.sessionStorage.getItem(name) ?? newDedupKey();
    },
    value: () => key.current,
    keep: () => window.sessionStorage.setItem(name, key.current),
    forget,
    replace: () => {
      forget();
      key.current = newDedupKey();
    },
  };
}

/** Returns the ids of all executions that match a filter, newest first; none without a filter. */
async function select(filter: ExecutionFilter | null, { report, signal }: BulkRequest): Promise<Selection> {
  if (!filter) {
    return NOTHING;
  }
  const ids: string[] = [];
  const unavailableShards = new Set<number>();
  let after: string | null = null;
  do {
    const { data, errors } = await selectedPage(filter, after, signal);
    if (!data.executions) {
      throw ApiError.of(errors);
    }
    const { nodes, pageInfo } = data.executions;
    ids.push(...nodes.map(({ id }) => id));
    data.executions.unavailableShards.forEach((shard) => unavailableShards.add(shard));
    report(`${formatNumber(ids.length)} executions found`);
    after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
    if (after !== null && ids.length >= MAX_SELECTED) {
      throw new ApiError("LIMIT_EXCEEDED", `More than ${formatNumber(MAX_SELECTED)} executions match the filter.`);
    }
  } while (after !== null);
  return { ids, unavailableShards: [...unavailableShards] };
}

function selectedPage(filter: ExecutionFilter, after: string | null, signal: AbortSignal) {
  return send(SelectedExecutionsDocument, { filter, after }, signal);
}

function sum(outcomes: readonly BatchOutcome[], unavailableShards: readonly number[]): BulkOutcome {
  const messages = new Set(outcomes.flatMap(({ userErrors }) => userErrors.map(({ message }) => message)));
  const shards = new Set([...unavailableShards, ...outcomes.flatMap((outcome) => outcome.unavailableShards)]);
  return {
    items: outcomes.flatMap(({ items }) => items),
    unavailableShards: [...shards],
    userErrors: [...messages].map((message) => ({ message })),
  };
}

/**
 * An action on many executions: a button, and the dialog that first shows what the action would do. The dry run lists the
 * ids of the executions. The action is carried out for exactly these, in batches.
 */

import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useRef, useState, type ReactNode } from "react";

import { newDedupKey } from "../../api/dedup_key";
import { type ApiError, toApiError } from "../../api/errors";
import type { Capability, ExecutionFilter } from "../../api/schema.generated";
import { BulkActionDialog, type BulkOutcome, type BulkRequest } from "../../ui/bulk_action_dialog";
import { formatItems, formatNumber } from "../../ui/format";
import { PermittedButton } from "../../ui/permitted_button";
import { TextLink } from "../../ui/text_link";
import { rerunsSearch, type Started } from "./reruns_search";
import type { ExecutionsSearch } from "./search";
import { adjectiveOf, listAll, NOTHING, refusalOf, type Listed, type Target } from "./target";

const route = getRouteApi("/executions");

/** Result for a batch. */
export interface BatchOutcome extends BulkOutcome {
  /** Whether a repeated request would change nothing more. */
  complete: boolean;
  /** Whether an earlier request with the key changed some of them (default false). */
  repeated?: boolean;
  /** Number of executions that the action would change and that were run again before (default 0). */
  again?: number;
  /** Reruns of the executions (default: none). */
  started?: readonly Started[];
}

interface Props {
  target: Target;
  /** Returns the filter of the executions that the action can change; null if it can change none (default: all that match). */
  narrow?: (filter: ExecutionFilter) => ExecutionFilter | null;
  capability: Capability;
  icon: ReactNode;
  /** Action in a word, for the button in the view and the title of the dialog. */
  verb: string;
  /** Text of the button in the dialog. */
  action: string;
  /** Text of the button that closes the dialog without the action (default Cancel). */
  keep?: string;
  /** What the action does to an execution, in a word (default changed). */
  done?: string;
  description: string;
  dangerous: boolean;
  withReason: boolean;
  /** Maximum number of executions in one request. */
  batchSize: number;
  /** Carries out the action for some executions. The key is the same until the action was carried out for all of them. */
  carryOut: (ids: string[], request: BulkRequest, key: string) => Promise<BatchOutcome>;
}

export function BulkAction({ target, narrow, capability, icon, verb, batchSize, carryOut, ...dialog }: Props) {
  const [opened, setOpened] = useState(false);
  const queries = useQueryClient();
  const { order: _, ...search } = route.useSearch();
  const label = `${verb} ${adjectiveOf(target)}…`;
  const subject = JSON.stringify(target.by === "filter" ? search : target.ids.toSorted());
  const key = usePendingKey(`noetl.executions.${label} ${subject}`);
  const listed = useRef(NOTHING);
  const refusal = refusalOf(target);

  function open() {
    key.begin();
    setOpened(true);
  }

  async function list(request: BulkRequest): Promise<Listed> {
    if (target.by === "selection") {
      return { ids: target.ids, unavailableShards: [] };
    }
    return listAll(narrow ? narrow(target.filter) : target.filter, request);
  }

  async function run(request: BulkRequest): Promise<BulkOutcome> {
    const { dryRun, report, signal } = request;
    if (dryRun) {
      listed.current = await list(request);
    } else {
      key.keep();
    }
    const { ids, unavailableShards } = listed.current;
    const outcomes: BatchOutcome[] = [];
    let error: ApiError | undefined;
    let sent = 0;
    while (sent < ids.length && !signal.aborted && !error) {
      report(`${formatNumber(sent)} of ${formatItems(ids.length, "execution")}`);
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
    const reruns = rerunsSearch(outcomes.flatMap(({ started = [] }) => started));
    const made = <RerunsLink search={reruns} onOpen={() => setOpened(false)} />;
    return { ...total, open: ids.length - sent, error, startAgain, note: againInWords(outcomes), made };
  }

  return (
    <>
      <PermittedButton
        capability={capability}
        variant="default"
        leftSection={icon}
        onClick={open}
        {...(refusal !== undefined && { refusal })}
      >
        {label}
      </PermittedButton>
      <BulkActionDialog
        opened={opened}
        title={`${verb} the ${adjectiveOf(target)} executions`}
        {...dialog}
        run={run}
        onClose={() => setOpened(false)}
      />
    </>
  );
}

/** Link to the list of the reruns. */
function RerunsLink({ search, onOpen }: { search: ExecutionsSearch | null; onOpen: () => void }) {
  return (
    search && (
      <TextLink to="/executions" search={search} onClick={onOpen} size="sm">
        {search.rerunOf === undefined ? "List what started in the time of the reruns" : "List the reruns"}
      </TextLink>
    )
  );
}

/** Returns how many executions were run again before; undefined if none was. */
function againInWords(outcomes: readonly BatchOutcome[]): string | undefined {
  const count = outcomes.reduce((total, { again = 0 }) => total + again, 0);
  return count === 0 ? undefined : `${formatNumber(count)} of them ${count === 1 ? "was" : "were"} run again before.`;
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

function sum(outcomes: readonly BatchOutcome[], unavailableShards: readonly number[]): BulkOutcome {
  const messages = new Set(outcomes.flatMap(({ userErrors }) => userErrors.map(({ message }) => message)));
  const shards = new Set([...unavailableShards, ...outcomes.flatMap((outcome) => outcome.unavailableShards)]);
  return {
    items: outcomes.flatMap(({ items }) => items),
    unavailableShards: [...shards],
    userErrors: [...messages].map((message) => ({ message })),
  };
}

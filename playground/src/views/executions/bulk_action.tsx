/**
 * An action on many executions: a button, and the dialog that first shows what the action would do. The dry run lists the
 * ids of the executions. The action is carried out for exactly these, in batches.
 */

import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useRef, useState, type ReactNode } from "react";

import { newDedupKey } from "../../api/dedup_key";
import type { Capability, ExecutionFilter } from "../../api/schema.generated";
import { sendAgain } from "../../api/send_again";
import { inBatches, NOTHING, type Listed } from "../../ui/batches";
import { BulkActionDialog, type BulkOutcome, type BulkRequest } from "../../ui/bulk_action_dialog";
import { formatNumber } from "../../ui/format";
import { PermittedButton } from "../../ui/permitted_button";
import { TextLink } from "../../ui/text_link";
import { rerunsSearch, type Started } from "./reruns_search";
import type { ExecutionsSearch } from "./search";
import { adjectiveOf, listExecutions, refusalOf, type Target } from "./target";

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
    return listExecutions(narrow ? narrow(target.filter) : target.filter, request);
  }

  async function run(request: BulkRequest): Promise<BulkOutcome> {
    const { dryRun } = request;
    if (dryRun) {
      listed.current = await list(request);
    } else {
      key.keep();
    }
    const withKey = (ids: string[]) => carryOut(ids, request, key.value());
    const { outcomes, total } = await inBatches(
      listed.current,
      { noun: "execution", size: batchSize, carryOut: withKey },
      request,
    ).finally(() => !dryRun && void sendAgain(queries));
    const isComplete = total.open === 0 && total.unavailableShards.length === 0 && outcomes.every(({ complete }) => complete);
    if (!dryRun && isComplete) {
      key.forget();
    }
    const startAgain = dryRun && isRepeated(outcomes) ? key.replace : undefined;
    const reruns = rerunsSearch(outcomes.flatMap(({ started = [] }) => started));
    const made = <RerunsLink search={reruns} onOpen={() => setOpened(false)} />;
    return { ...total, startAgain, note: againInWords(outcomes), made };
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

/**
 * A dialog for an action on many objects. It first sends the request as a dry run and shows what would happen to each
 * object; only then the action can be carried out. The results of the action replace the preview.
 */

import { Button, Group, Modal, ScrollArea, Stack, Table, Text, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState, type ReactNode } from "react";

import type { ApiError } from "../api/errors";
import type { UserError } from "../api/schema.generated";
import { UserErrors } from "./confirm_dialog";
import { formatNumber } from "./format";
import { Failure, Loading, PartialData } from "./states";

/** Expected or real result for one object. */
export interface BulkItem {
  id: string;
  /** Name of the object, such as its path. */
  name: string;
  applied: boolean;
  /** Result in words, such as the new status or the reason of a refusal, with a link to what was made. */
  result: ReactNode;
}

/** Request for the action, or for what it would do. */
export interface BulkRequest {
  dryRun: boolean;
  reason: string | null;
  /** Shows how far a request of several parts is. */
  report: (progress: string) => void;
  /** Is aborted when the user stops the action or closes the dialog. No further part of the request is sent then. */
  signal: AbortSignal;
}

export interface BulkOutcome {
  items: readonly BulkItem[];
  /** Number of changed objects, if the server counts them and `items` has only examples. */
  count?: number;
  /** Number of selected objects without a result, because the user stopped the action or a request failed (default 0). */
  open?: number;
  /** Failure that ended the action; `items` has what was done before. */
  error?: ApiError | undefined;
  /** Lets the action change again what it changed before; set if it would change nothing else. */
  startAgain?: (() => void) | undefined;
  /** Sentence about the objects before the action, such as how many of them it changed before. */
  note?: string | undefined;
  /** Link to what the action made. */
  made?: ReactNode;
  unavailableShards: readonly number[];
  userErrors: readonly Pick<UserError, "message">[];
}

interface Props {
  opened: boolean;
  title: string;
  action: string;
  /** Text of the button that closes the dialog without the action (default Cancel). */
  keep?: string;
  dangerous?: boolean;
  /** What the action does to an object, in a word such as "started" (default changed). */
  done?: string;
  /** Selected objects and the result of the action, in words. */
  description?: ReactNode;
  /** Whether the user can give a reason (default true). */
  withReason?: boolean;
  /** Sends the request. */
  run: (request: BulkRequest) => Promise<BulkOutcome>;
  onClose: () => void;
}

export function BulkActionDialog(props: Props) {
  const { opened, title, onClose } = props;
  const [running, setRunning] = useState<AbortController | null>(null);
  // While the action is carried out, the first attempt to close the dialog stops it, and the dialog shows what was done.
  function stopOrClose() {
    running?.abort();
    setRunning(null);
    if (!running) {
      onClose();
    }
  }
  return (
    <Modal opened={opened} onClose={stopOrClose} title={title} size="lg" centered>
      <Steps {...props} isRunning={running !== null} onRun={setRunning} onClose={stopOrClose} />
    </Modal>
  );
}

interface StepsProps extends Props {
  /** Whether the action is carried out and was not stopped. */
  isRunning: boolean;
  /** Is called with the controller that stops the action, and with null at its end. */
  onRun: (running: AbortController | null) => void;
}

function Steps(props: StepsProps) {
  const { action, keep = "Cancel", dangerous, done = "changed", description, withReason = true, run, isRunning, onRun, onClose } = props;
  const [reason, setReason] = useState("");
  const [progress, setProgress] = useState("");
  const [attempt, setAttempt] = useState(0);
  const stop = useRef(new AbortController());
  const part = () => ({ report: setProgress, signal: stop.current.signal });
  const preview = useMutation<BulkOutcome, ApiError>({ mutationFn: () => run({ dryRun: true, reason: null, ...part() }) });
  const real = useMutation<BulkOutcome, ApiError>({
    mutationFn: () => run({ dryRun: false, reason: reason.trim() || null, ...part() }),
  });
  const { mutate } = preview;
  useEffect(() => {
    stop.current = new AbortController();
    mutate();
    return () => stop.current.abort();
  }, [mutate, attempt]);
  const close = useRef<HTMLButtonElement>(null);
  // The button that carried out the action is gone, so the focus moves to the one that is left.
  useEffect(() => (real.isSuccess ? close.current?.focus() : undefined), [real.isSuccess]);

  const outcome = real.data ?? preview.data;
  const error = real.error ?? preview.error ?? outcome?.error;
  const applied = outcome ? changedBy(outcome) : 0;
  const isStopped = real.isPending && !isRunning;
  const isPending = preview.isPending || real.isPending;
  const note = isStopped ? "The action ends after the request that is in progress." : isPending ? progress : "";
  function tryAgain() {
    real.reset();
    setAttempt(attempt + 1);
  }
  function startAgain() {
    outcome?.startAgain?.();
    tryAgain();
  }
  function carryOut() {
    stop.current = new AbortController();
    onRun(stop.current);
    real.mutate(undefined, { onSettled: () => onRun(null) });
  }
  return (
    <Stack gap="md">
      {description && (
        <Text size="sm" component="div">
          {description}
        </Text>
      )}
      {error && <Failure error={error} retry={tryAgain} />}
      {!outcome && !error && <Loading />}
      {note !== "" && (
        <Text size="sm" c="dimmed" aria-live="polite">
          {note}
        </Text>
      )}
      {outcome && <Outcome outcome={outcome} done={real.isSuccess} word={done} />}
      {withReason && !real.isSuccess && (
        <Textarea
          label="Reason"
          description="Written to the logs."
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          maxLength={4096}
          data-autofocus
        />
      )}
      <Group justify="flex-end" gap="xs">
        <Button ref={close} variant="default" onClick={onClose}>
          {isRunning ? "Stop" : real.isPending || real.isSuccess ? "Close" : keep}
        </Button>
        {outcome?.startAgain && (
          <Button variant="default" onClick={startAgain}>
            Start all again
          </Button>
        )}
        {!real.isSuccess && (
          <Button
            onClick={carryOut}
            loading={real.isPending}
            disabled={applied === 0}
            {...(dangerous && { color: "red" })}
          >
            {action} {applied > 0 && `(${formatNumber(applied)})`}
          </Button>
        )}
      </Group>
    </Stack>
  );
}

function Outcome({ outcome, done, word }: { outcome: BulkOutcome; done: boolean; word: string }) {
  return (
    <>
      <Text size="sm" fw={600} role="status">
        {inWords(outcome, done, word)}
      </Text>
      {!done && outcome.note !== undefined && <Text size="sm">{outcome.note}</Text>}
      {done && outcome.made}
      <UserErrors errors={outcome.userErrors} />
      <PartialData unavailableShards={outcome.unavailableShards} />
      {outcome.items.length > 0 && <Items items={outcome.items} done={done} />}
    </>
  );
}

function changedBy({ items, count }: BulkOutcome): number {
  return count ?? items.filter((item) => item.applied).length;
}

function inWords(outcome: BulkOutcome, done: boolean, word: string): string {
  const changed = changedBy(outcome);
  const refused = outcome.items.filter((item) => !item.applied).length;
  const sentence = `${formatNumber(changed)} ${done ? "" : "would be "}${word}`;
  if (outcome.count !== undefined) {
    const part = changed > outcome.items.length && outcome.items.length > 0;
    return `${sentence}.${part ? ` The list has the first ${outcome.items.length}.` : ""}`;
  }
  const open = outcome.open ? `, ${formatNumber(outcome.open)} without a result` : "";
  return `${sentence}, ${formatNumber(refused)} ${done ? "refused" : "would be refused"}${open}.`;
}

/** Maximum number of objects that are listed. */
const MAX_LISTED = 1_000;
const UNBROKEN = { whiteSpace: "nowrap" } as const;

function Items({ items, done }: { items: readonly BulkItem[]; done: boolean }) {
  return (
    <ScrollArea.Autosize mah={320} viewportProps={{ tabIndex: 0, role: "region", "aria-label": "Objects" }}>
      <Table style={{ overflowWrap: "anywhere" }}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th style={UNBROKEN}>Object</Table.Th>
            <Table.Th style={UNBROKEN}>{done ? "Result" : "Expected result"}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {items.slice(0, MAX_LISTED).map((item) => (
            <Table.Tr key={item.id}>
              <Table.Td>{item.name}</Table.Td>
              <Table.Td miw="12rem">{item.result}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {items.length > MAX_LISTED && (
        <Text size="sm" c="dimmed">
          The list has the first {formatNumber(MAX_LISTED)} of {formatNumber(items.length)}.
        </Text>
      )}
    </ScrollArea.Autosize>
  );
}

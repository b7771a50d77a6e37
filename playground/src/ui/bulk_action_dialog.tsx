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
  /** Result in words, such as the new status or the reason of a refusal. */
  result: string;
}

export interface BulkOutcome {
  items: readonly BulkItem[];
  /** Number of changed objects, if the server counts them and `items` has only examples. */
  count?: number;
  unavailableShards: readonly number[];
  userErrors: readonly Pick<UserError, "message">[];
}

interface Props {
  opened: boolean;
  title: string;
  action: string;
  dangerous?: boolean;
  /** Selected objects and the result of the action, in words. */
  description?: ReactNode;
  /** Whether the user can give a reason (default true). */
  withReason?: boolean;
  /** Sends the request. */
  run: (request: { dryRun: boolean; reason: string | null }) => Promise<BulkOutcome>;
  onClose: () => void;
}

export function BulkActionDialog(props: Props) {
  return (
    <Modal opened={props.opened} onClose={props.onClose} title={props.title} size="lg" centered>
      <Steps {...props} />
    </Modal>
  );
}

function Steps({ action, dangerous, description, withReason = true, run, onClose }: Props) {
  const [reason, setReason] = useState("");
  const preview = useMutation<BulkOutcome, ApiError>({ mutationFn: () => run({ dryRun: true, reason: null }) });
  const real = useMutation<BulkOutcome, ApiError>({
    mutationFn: () => run({ dryRun: false, reason: reason.trim() || null }),
  });
  const { mutate } = preview;
  useEffect(() => mutate(), [mutate]);
  const close = useRef<HTMLButtonElement>(null);
  // The button that carried out the action is gone, so the focus moves to the one that is left.
  useEffect(() => (real.isSuccess ? close.current?.focus() : undefined), [real.isSuccess]);

  const outcome = real.data ?? preview.data;
  const error = real.error ?? preview.error;
  const applied = outcome ? changedBy(outcome) : 0;
  function tryAgain() {
    real.reset();
    mutate();
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
      {outcome && <Outcome outcome={outcome} done={real.isSuccess} />}
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
          {real.isSuccess ? "Close" : "Cancel"}
        </Button>
        {!real.isSuccess && (
          <Button
            onClick={() => real.mutate()}
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

function Outcome({ outcome, done }: { outcome: BulkOutcome; done: boolean }) {
  return (
    <>
      <Text size="sm" fw={600} role="status">
        {inWords(outcome, done)}
      </Text>
      <UserErrors errors={outcome.userErrors} />
      <PartialData unavailableShards={outcome.unavailableShards} />
      {outcome.items.length > 0 && <Items items={outcome.items} done={done} />}
    </>
  );
}

function changedBy({ items, count }: BulkOutcome): number {
  return count ?? items.filter((item) => item.applied).length;
}

function inWords(outcome: BulkOutcome, done: boolean): string {
  const changed = changedBy(outcome);
  const refused = outcome.items.filter((item) => !item.applied).length;
  const sentence = done ? `${formatNumber(changed)} changed` : `${formatNumber(changed)} would be changed`;
  if (outcome.count !== undefined) {
    const part = changed > outcome.items.length && outcome.items.length > 0;
    return `${sentence}.${part ? ` The list has the first ${outcome.items.length}.` : ""}`;
  }
  return `${sentence}, ${refused} ${done ? "refused" : "would be refused"}.`;
}

function Items({ items, done }: { items: readonly BulkItem[]; done: boolean }) {
  return (
    <ScrollArea.Autosize mah={320} viewportProps={{ tabIndex: 0, role: "region", "aria-label": "Objects" }}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Object</Table.Th>
            <Table.Th>{done ? "Result" : "Expected result"}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {items.map((item) => (
            <Table.Tr key={item.id}>
              <Table.Td>{item.name}</Table.Td>
              <Table.Td>{item.result}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea.Autosize>
  );
}

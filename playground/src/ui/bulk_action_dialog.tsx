/**
 * A dialog for an action on many objects. It first sends the request as a dry run and shows what would happen to each
 * object; only then the action can be carried out. The results of the action replace the preview.
 */

import { Button, Group, Modal, ScrollArea, Stack, Table, Text, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import type { ApiError } from "../api/errors";
import type { UserError } from "../api/schema.generated";
import { UserErrors } from "./confirm_dialog";
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
  unavailableShards: readonly number[];
  userErrors: readonly Pick<UserError, "message">[];
}

interface Props {
  opened: boolean;
  title: string;
  action: string;
  dangerous?: boolean;
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

function Steps({ action, dangerous, run, onClose }: Props) {
  const [reason, setReason] = useState("");
  const preview = useMutation<BulkOutcome, ApiError>({ mutationFn: () => run({ dryRun: true, reason: null }) });
  const real = useMutation<BulkOutcome, ApiError>({
    mutationFn: () => run({ dryRun: false, reason: reason.trim() || null }),
  });
  const { mutate } = preview;
  useEffect(() => mutate(), [mutate]);

  const outcome = real.data ?? preview.data;
  const error = real.error ?? preview.error;
  const applied = outcome?.items.filter((item) => item.applied).length ?? 0;
  return (
    <Stack gap="md">
      {error && <Failure error={error} retry={() => mutate()} />}
      {!outcome && !error && <Loading />}
      {outcome && <Outcome outcome={outcome} done={real.isSuccess} />}
      {!real.isSuccess && (
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
        <Button variant="default" onClick={onClose}>
          {real.isSuccess ? "Close" : "Cancel"}
        </Button>
        {!real.isSuccess && (
          <Button
            onClick={() => real.mutate()}
            loading={real.isPending}
            disabled={applied === 0}
            {...(dangerous && { color: "red" })}
          >
            {action} {applied > 0 && `(${applied})`}
          </Button>
        )}
      </Group>
    </Stack>
  );
}

function Outcome({ outcome, done }: { outcome: BulkOutcome; done: boolean }) {
  const applied = outcome.items.filter((item) => item.applied).length;
  const refused = outcome.items.length - applied;
  return (
    <>
      <Text size="sm" role="status">
        {done ? `${applied} changed` : `${applied} would be changed`}, {refused} {done ? "refused" : "would be refused"}.
      </Text>
      <UserErrors errors={outcome.userErrors} />
      <PartialData unavailableShards={outcome.unavailableShards} />
      <ScrollArea.Autosize mah={320}>
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Object</Table.Th>
              <Table.Th>{done ? "Result" : "Expected result"}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {outcome.items.map((item) => (
              <Table.Tr key={item.id}>
                <Table.Td>{item.name}</Table.Td>
                <Table.Td>{item.result}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </ScrollArea.Autosize>
    </>
  );
}

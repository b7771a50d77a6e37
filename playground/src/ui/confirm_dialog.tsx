/** A dialog that asks before an action, with a reason for the log if the action takes one. */

import { Alert, Button, Group, Modal, Stack, Text, Textarea } from "@mantine/core";
import { useState, type ReactNode } from "react";

import type { UserError } from "../api/schema.generated";

interface Props {
  opened: boolean;
  title: string;
  /** Result of the action, in words. */
  children: ReactNode;
  /** Text of the button that carries out the action. */
  action: string;
  /** Text of the button that closes the dialog without the action (default Cancel). */
  keep?: string;
  /** Whether the action is hard to undo (default false). */
  dangerous?: boolean;
  /** Whether the user can give a reason (default true). */
  withReason?: boolean;
  busy: boolean;
  /** Reasons the server refused the action. */
  userErrors?: readonly Pick<UserError, "message">[];
  onConfirm: (reason: string | null) => void;
  onClose: () => void;
}

export function ConfirmDialog(props: Props) {
  return (
    <Modal opened={props.opened} onClose={props.onClose} title={props.title} centered>
      <Question {...props} />
    </Modal>
  );
}

function Question({ children, action, keep = "Cancel", dangerous, withReason = true, busy, userErrors = [], onConfirm, onClose }: Props) {
  const [reason, setReason] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onConfirm(reason.trim() || null);
      }}
    >
      <Stack gap="md">
        <Text size="sm" component="div">
          {children}
        </Text>
        {withReason && (
          <Textarea
            label="Reason"
            description="Written to the log, where everyone who reads it sees it."
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            maxLength={4096}
            autosize
            minRows={2}
            data-autofocus
          />
        )}
        <UserErrors errors={userErrors} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            {keep}
          </Button>
          <Button type="submit" loading={busy} {...(dangerous && { color: "red" })}>
            {action}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** The reasons a request was refused. */
export function UserErrors({ errors }: { errors: readonly Pick<UserError, "message">[] }) {
  if (errors.length === 0) {
    return null;
  }
  return (
    <Alert color="red" variant="outline" role="alert" title="The server refused the request">
      {errors.map((error) => (
        <Text size="sm" key={error.message}>
          {error.message}
        </Text>
      ))}
    </Alert>
  );
}

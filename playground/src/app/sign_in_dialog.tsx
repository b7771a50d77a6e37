/** The dialog that asks for a token. It is above the page, which keeps its state, so an expired token loses nothing. */

import { Button, Group, Modal, PasswordInput, Stack, Text } from "@mantine/core";
import { useState, useSyncExternalStore } from "react";

import { closeSignIn, signInState, subscribeSignIn, type SignInReason } from "../api/token";

const EXPLANATION: Record<SignInReason, string> = {
  required: "This server requires a token.",
  refused: "The server refuses your token: it is wrong, has expired, or was revoked. The page keeps its state.",
  requested: "The token is used for all requests of this page.",
};

export function SignInDialog() {
  const { asking } = useSyncExternalStore(subscribeSignIn, signInState);
  return (
    <Modal
      opened={asking !== null}
      onClose={() => closeSignIn(null)}
      title="Sign in"
      centered
      zIndex={1000}
      closeOnClickOutside={false}
    >
      {asking && <TokenForm reason={asking} />}
    </Modal>
  );
}

function TokenForm({ reason }: { reason: SignInReason }) {
  const [text, setText] = useState("");
  const token = text.trim().replace(/^bearer\s+/i, "");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (token) {
          closeSignIn(token);
        }
      }}
    >
      <Stack gap="md">
        <Text size="sm">{EXPLANATION[reason]}</Text>
        <PasswordInput
          label="Token"
          description="Kept in the memory of this page. A reload asks for it again."
          placeholder="noetl_… or a JWT"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          autoComplete="off"
          data-autofocus
        />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={() => closeSignIn(null)}>
            Cancel
          </Button>
          <Button type="submit" disabled={!token}>
            Sign in
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

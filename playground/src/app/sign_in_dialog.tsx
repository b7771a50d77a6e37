/**
 * The dialog for the sign-in, with a token or at the provider of the organization. It is above the page, which keeps its
 * state, so an expired token loses nothing.
 */

import { Button, Divider, Group, Modal, PasswordInput, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, useSyncExternalStore } from "react";

import type { SignInFailure } from "../api/sign_in_failure";
import { readInvitation, type Invitation } from "../api/sign_in_routes";
import { closeSignIn, signInState, subscribeSignIn, type SignInReason } from "../api/token";
import { OrganizationSignIn, SignInFailed } from "./organization_sign_in";

const EXPLANATION: Record<SignInReason, string> = {
  required: "This server requires a token.",
  refused: "The server refuses your token: it is wrong, has expired, or was revoked. The page keeps its state.",
  requested: "The token is used for all requests of this page.",
};

export default function SignInDialog() {
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
      {asking && <Choices reason={asking} />}
    </Modal>
  );
}

/** The ways to sign in. The server says whether it has a provider. */
function Choices({ reason }: { reason: SignInReason }) {
  const invitation = useInvitation();
  const hasProvider = Boolean(invitation.data ?? invitation.error);
  return (
    <Stack gap="md">
      <Text size="sm">{EXPLANATION[reason]}</Text>
      {invitation.error ? (
        <SignInFailed failure={invitation.error}>
          <Button size="xs" variant="default" loading={invitation.isFetching} onClick={() => void invitation.refetch()}>
            Try again
          </Button>
        </SignInFailed>
      ) : (
        invitation.data && <OrganizationSignIn invitation={invitation.data} />
      )}
      {hasProvider && <Divider label="or with a token" />}
      <TokenForm secondary={hasProvider} />
    </Stack>
  );
}

/** Asks the server for the invitation each time the dialog opens, because its provider may be down for a while. */
function useInvitation() {
  return useQuery<Invitation | null, SignInFailure>({
    queryKey: ["sign-in invitation"],
    queryFn: ({ signal }) => readInvitation(signal),
    refetchOnMount: "always",
    refetchOnWindowFocus: false,
    retry: false,
  });
}

function TokenForm({ secondary }: { secondary: boolean }) {
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
        <PasswordInput
          label="Token"
          description="Kept until you sign out or close this tab, and used by other tabs of this console."
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
          <Button type="submit" disabled={!token} variant={secondary ? "outline" : "filled"}>
            Sign in
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/**
 * Last page of the sign-in window. It gives the reply of the provider to the page that opened the window, and closes the
 * window.
 */

import { Anchor, Stack, Text, Title } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { addressOf } from "../api/address";
import { sendReply } from "../api/sign_in_channel";

/** Time after which no page is expected to take the reply. */
const WAIT_MS = 2_000;

type Delivery = "sending" | "received" | "not received";

const TEXTS: Record<Delivery, string> = {
  sending: "The reply of your organization goes to the console.",
  received: "The console has the reply. You can close this window.",
  "not received": "No page of the console waits for this sign-in any more. Close this window, and sign in again in the console.",
};

const route = getRouteApi("/signed-in");

export function SignedInPage() {
  const { state } = route.useSearch();
  return (
    <Stack component="main" gap="xs" p="lg" maw={480} mx="auto" mt={48}>
      <Title order={1} size="h3">
        Sign-in
      </Title>
      {state === undefined ? <NoReply /> : <Reply state={state} />}
    </Stack>
  );
}

function Reply({ state }: { state: string }) {
  const delivery = useDelivery(state);
  return (
    <Text size="sm" role="status">
      {TEXTS[delivery]}
    </Text>
  );
}

function NoReply() {
  return (
    <Text size="sm">
      This page ends a sign-in, and its address contains none.{" "}
      <Anchor href={addressOf("/")} inherit underline="always">
        Open the console
      </Anchor>{" "}
      to sign in.
    </Text>
  );
}

function useDelivery(state: string): Delivery {
  const { code, error, error_description: description } = route.useSearch();
  const [delivery, setDelivery] = useState<Delivery>("sending");
  useEffect(() => {
    document.title = "Sign-in · NoETL";
    const timer = window.setTimeout(() => setDelivery("not received"), WAIT_MS);
    const stop = sendReply({ state, code, error, description }, () => {
      window.clearTimeout(timer);
      setDelivery("received");
      window.close();
    });
    return () => {
      window.clearTimeout(timer);
      stop();
    };
  }, [state, code, error, description]);
  return delivery;
}

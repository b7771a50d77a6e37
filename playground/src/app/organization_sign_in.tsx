/** Sign-in at the provider of the organization: the button that opens its window, and what happens in between. */

import { Alert, Button, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconExternalLink } from "@tabler/icons-react";
import { useEffect, useRef, useState, type ReactNode } from "react";

import { startSignIn, type SignInProgress } from "../api/sign_in_attempt";
import type { SignInFailure } from "../api/sign_in_failure";
import type { Invitation } from "../api/sign_in_routes";
import { closeSignIn } from "../api/token";

export function OrganizationSignIn({ invitation }: { invitation: Invitation }) {
  const { progress, start } = useSignInAttempt(invitation);
  return (
    <Stack gap="xs">
      <Button
        leftSection={<IconExternalLink size={16} />}
        loading={progress?.step === "exchanging"}
        onClick={start}
        aria-describedby="organization-sign-in"
      >
        Sign in with your organization
      </Button>
      <Text size="xs" c="dimmed" id="organization-sign-in">
        Opens a window of your organization. This page stays as it is.
      </Text>
      <div role="status">{progress && <ProgressText progress={progress} />}</div>
      {progress?.step === "failed" && <SignInFailed failure={progress.failure} />}
    </Stack>
  );
}

/** A sign-in that failed, with advice. */
export function SignInFailed({ failure, children }: { failure: SignInFailure; children?: ReactNode }) {
  return (
    <Alert color="red" variant="outline" icon={<IconAlertTriangle />} title={failure.message} role="alert">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">{failure.advice}</Text>
        {children}
      </Stack>
    </Alert>
  );
}

const TEXTS: Partial<Record<SignInProgress["step"], string>> = {
  waiting: "Waiting for the sign-in window. If you don't see it, look behind this window, or press the button again.",
  closed: "The sign-in window is closed. To open it again, press the button.",
  exchanging: "The provider sent you back. The server requests your token.",
};

function ProgressText({ progress }: { progress: SignInProgress }) {
  const text = TEXTS[progress.step];
  return text && <Text size="sm">{text}</Text>;
}

/** Runs one attempt at a time. An attempt ends with the next one, and when the dialog is closed. */
function useSignInAttempt(invitation: Invitation) {
  const [progress, setProgress] = useState<SignInProgress | null>(null);
  const stop = useRef(() => {});
  useEffect(() => () => stop.current(), []);
  const start = () => {
    stop.current();
    stop.current = startSignIn(invitation, (changed) => {
      setProgress(changed);
      if (changed.step === "done") {
        closeSignIn(changed.token);
      }
    });
  };
  return { progress, start };
}

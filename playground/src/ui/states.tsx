/** The states of a view that has no data, or not all of it. Each says what to do. */

import { Alert, Button, Skeleton, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconPlugConnectedX } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { advice, type ApiError, type GraphqlError } from "../api/errors";
import { requestSignIn } from "../api/token";
import { TextLink } from "./text_link";

/** Shown while the first data loads. */
export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <Stack gap="xs" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, line) => (
        <Skeleton key={line} height={18} radius="sm" />
      ))}
    </Stack>
  );
}

/** Shown when there is nothing to list. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Stack gap={4} align="center" py="xl" px="md" ta="center">
      <Text fw={600}>{title}</Text>
      {children && (
        <Text size="sm" c="dimmed" component="div" maw={520}>
          {children}
        </Text>
      )}
    </Stack>
  );
}

/** Shown when a request failed. */
export function Failure({ error, retry }: { error: ApiError; retry?: () => void }) {
  const signedOut = error.code === "UNAUTHENTICATED";
  return (
    <Alert color="red" variant="outline" title={error.message} icon={<IconPlugConnectedX />} role="alert">
      <Stack gap="xs" align="flex-start">
        {advice(error) && <Text size="sm">{advice(error)}</Text>}
        {signedOut && (
          <Button size="xs" onClick={requestSignIn}>
            Sign in
          </Button>
        )}
        {retry && !signedOut && (
          <Button size="xs" variant="default" onClick={retry}>
            Try again
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

interface PartialProps {
  /** Shards whose items are missing. */
  unavailableShards?: readonly number[];
  /** Errors of fields whose data is missing. */
  errors?: readonly GraphqlError[];
  /** Explanation of what is missing from the shards, if it is not all of their data. */
  children?: ReactNode;
}

/** Shown above data of which a part is missing. */
export function PartialData({ unavailableShards = [], errors = [], children }: PartialProps) {
  if (unavailableShards.length === 0 && errors.length === 0) {
    return null;
  }
  const shards = unavailableShards.length === 1 ? "shard" : "shards";
  return (
    <Alert color="yellow" variant="outline" icon={<IconAlertTriangle />} title="Some data is missing" role="alert">
      {unavailableShards.length > 0 && (
        <Text size="sm">
          The database of {shards} {unavailableShards.join(", ")} can't be read now.{" "}
          {children ?? `The data of the ${shards} is missing here.`} Check the database; the{" "}
          <TextLink to="/system" hash="shards" inherit underline="always">
            System view
          </TextLink>{" "}
          shows its error. The data appears again when the database is back.
        </Text>
      )}
      {errors.map((error) => (
        <Text size="sm" key={`${error.path?.join(".")} ${error.message}`}>
          {error.message}
        </Text>
      ))}
    </Alert>
  );
}

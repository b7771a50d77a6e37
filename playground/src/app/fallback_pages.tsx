/** Pages for an address without a view, for a view that is not loaded yet, and for one that failed. */

import { Anchor, Button, Code, Stack, Text } from "@mantine/core";
import { Link, type ErrorComponentProps } from "@tanstack/react-router";
import { useSyncExternalStore } from "react";

import { toApiError } from "../api/errors";
import { Loading } from "../ui/states";
import { ViewPage } from "../ui/view_page";
import { isServerAwaited, PartMissing, subscribeParts } from "./parts";
import { ReloadOffer } from "./reload_offer";

export function NotFoundPage() {
  return (
    <ViewPage title="There is no such page">
      <Text size="sm">
        Check the address, press <Code>Ctrl K</Code> to find a view or an object, or{" "}
        <Anchor component={Link} to="/" inherit underline="always">
          open the overview
        </Anchor>
        .
      </Text>
    </ViewPage>
  );
}

/** Shown after a second while the files of a view are loaded. They are not loaded while the server is away (`parts.ts`). */
export function ViewPendingPage() {
  const isAwaited = useSyncExternalStore(subscribeParts, isServerAwaited);
  return isAwaited ? (
    <ViewPage title="This view is not loaded yet">
      <Text size="sm" role="status">
        The server can't be reached. The view is loaded by itself when the connection is back.
      </Text>
    </ViewPage>
  ) : (
    <Loading lines={6} />
  );
}

export function ViewFailedPage({ error, reset }: ErrorComponentProps) {
  return error instanceof PartMissing ? (
    <ViewPage title="This view needs a reload">
      <Stack align="flex-start" gap="sm">
        <ReloadOffer />
        <Code block>{error.message}</Code>
      </Stack>
    </ViewPage>
  ) : (
    <ViewPage title="This view failed">
      <Stack align="flex-start" gap="sm">
        <Text size="sm">Open the view again. If it fails again, reload the page.</Text>
        <Code block>{toApiError(error).message}</Code>
        <Button size="xs" onClick={reset}>
          Open the view again
        </Button>
      </Stack>
    </ViewPage>
  );
}

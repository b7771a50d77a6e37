/** Pages for an address without a view, and for a view that failed. */

import { Anchor, Button, Code, Stack, Text } from "@mantine/core";
import { Link, type ErrorComponentProps } from "@tanstack/react-router";

import { toApiError } from "../api/errors";
import { ViewPage } from "../ui/view_page";

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

export function ViewFailedPage({ error, reset }: ErrorComponentProps) {
  return (
    <ViewPage title="This view failed">
      <Stack align="flex-start" gap="sm">
        <Text size="sm">
          Open the view again. If the server was updated, reload the page first, because the files of the older version are
          gone.
        </Text>
        <Code block>{toApiError(error).message}</Code>
        <Button size="xs" onClick={reset}>
          Open the view again
        </Button>
      </Stack>
    </ViewPage>
  );
}

/** Offer to reload the page, for a part that the server does not have any more. */

import { Button, Paper, Stack, Text } from "@mantine/core";

export function ReloadOffer() {
  return (
    <Stack align="flex-start" gap="sm">
      <Text size="sm">
        This part of the page could not be loaded, probably because the server was updated. Reload the page: it opens at the
        same address, and you stay signed in.
      </Text>
      <Button size="xs" onClick={() => window.location.reload()}>
        Reload
      </Button>
    </Stack>
  );
}

/** Stands in a corner of the page for a part that belongs to no view. */
export function ReloadNotice() {
  return (
    <Paper role="alert" withBorder shadow="md" p="md" maw={380} pos="fixed" bottom={16} right={16} style={{ zIndex: 1000 }}>
      <ReloadOffer />
    </Paper>
  );
}

/** Says how much of a long log is loaded, and loads earlier events. */

import { Button, Group, Text } from "@mantine/core";

import { formatNumber } from "../../ui/format";
import type { Log } from "./log_reader";

export function EarlierEvents({ log }: { log: Log }) {
  if (!log.earlier) {
    return null;
  }
  return (
    <Group gap="xs" mb="xs">
      <Text size="xs" c="dimmed">
        The newest {formatNumber(log.events.length)} of {formatNumber(log.total)} events are loaded.
      </Text>
      <Button size="xs" variant="default" loading={log.reading} onClick={log.loadEarlier}>
        Load earlier
      </Button>
    </Group>
  );
}

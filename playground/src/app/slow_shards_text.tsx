/** Sentences that say which shards are slow. */

import { Text } from "@mantine/core";

import type { SystemStatus } from "../api/system_status";
import { slownessInWords } from "./slow_shards";

export function SlowShardsText({ status }: { status: SystemStatus }) {
  return slownessInWords(status).map((sentence) => (
    <Text key={sentence} component="p" size="sm" mt={0} mb="xs">
      {sentence}
    </Text>
  ));
}

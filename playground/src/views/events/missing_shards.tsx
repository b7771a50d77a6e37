/** Says which shards can't be read. Their published events come from the broker, so the list has them. */

import { memo } from "react";

import { useSystemStatus } from "../../api/system_status";
import { PartialData } from "../../ui/states";

export const MissingShards = memo(function MissingShards() {
  const { status } = useSystemStatus();
  const missing = status?.shards.filter((shard) => !shard.available).map(({ shard }) => shard) ?? [];
  return (
    <PartialData unavailableShards={missing}>
      The list has the events that were published before. The details of these events, and events that were not published
      yet, are missing.
    </PartialData>
  );
});

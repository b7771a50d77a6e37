/** The state of each part of the system in one word, as links to its details below. */

import { SimpleGrid } from "@mantine/core";

import type { SystemStatus } from "../../api/system_status";
import { MAX_LAG_SECONDS } from "../../app/slow_shards";
import { Figure } from "../../ui/figure";
import { formatDuration, formatLatency, formatNumber } from "../../ui/format";

export function SystemFigures({ status }: { status: SystemStatus }) {
  const { shards, eventStream, outbox } = status;
  const reached = shards.filter((shard) => shard.available);
  const led = eventStream.shards.filter((shard) => shard.leader !== null);
  const lag = Math.max(0, ...eventStream.shards.map((shard) => shard.lagSeconds));
  const broker = brokerState(eventStream);
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
      <Figure
        name="Databases"
        value={`${reached.length} of ${shards.length}`}
        explanation="can be reached"
        {...(reached.length < shards.length && { tone: "bad" as const })}
        link={{ to: "/system", hash: "shards" }}
      />
      <Figure
        name="Slowest round trip"
        value={latencyText(reached)}
        explanation="to a database"
        link={{ to: "/system", hash: "shards" }}
      />
      <Figure
        name="Broker"
        value={broker}
        explanation="from this replica"
        {...(broker !== "Connected" && { tone: "bad" as const })}
        link={{ to: "/system", hash: "feeds" }}
      />
      <Figure
        name="Feed leaders"
        value={`${led.length} of ${eventStream.shards.length}`}
        explanation={`highest epoch ${Math.max(0, ...eventStream.shards.map((shard) => shard.feedEpoch))}`}
        {...(led.length < eventStream.shards.length && { tone: "bad" as const })}
        link={{ to: "/system", hash: "feeds" }}
      />
      <Figure
        name="Feed lag"
        value={lag === 0 ? "None" : formatDuration(lag)}
        explanation="oldest unpublished event"
        {...(lag > MAX_LAG_SECONDS && { tone: "waiting" as const })}
        link={{ to: "/system", hash: "feeds" }}
      />
      <Figure
        name="Outbox"
        value={outbox ? formatNumber(outbox.dead > 0 ? outbox.dead : outbox.pending) : "–"}
        explanation={outbox ? outboxText(outbox) : "could not be counted"}
        {...(outbox && outbox.dead > 0 && { tone: "bad" as const })}
        link={{ to: "/system", hash: "outbox" }}
      />
    </SimpleGrid>
  );
}

function outboxText({ pending, dead }: NonNullable<SystemStatus["outbox"]>): string {
  return dead > 0 ? `dead, ${formatNumber(pending)} claimable` : "claimable, none dead";
}

function brokerState({ enabled, connected }: SystemStatus["eventStream"]): string {
  if (!enabled) {
    return "Not used";
  }
  return connected ? "Connected" : "Lost";
}

function latencyText(shards: SystemStatus["shards"]): string {
  const latencies = shards.map((shard) => shard.latencyMilliseconds).filter((latency) => latency !== null);
  return latencies.length > 0 ? formatLatency(Math.max(...latencies)) : "–";
}

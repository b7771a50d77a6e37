/** Charts of the figures that this page has kept: at most those of the last hour. */

import { SimpleGrid, Text } from "@mantine/core";

import type { Sample } from "../../api/system_status";
import { Empty } from "../../ui/states";
import { RateChart } from "../../ui/rate_chart";
import classes from "./hour_charts.module.css";

const CHARTS = [
  { label: "Events published per second", value: "eventsPerSecond" },
  { label: "Feed lag in seconds", value: "lagSeconds" },
  { label: "Claimable outbox entries", value: "outboxPending" },
  { label: "Slowest round trip to a database in milliseconds", value: "latencyMilliseconds" },
  { label: "Busy database connections", value: "busyConnections" },
  { label: "Oldest open transaction in seconds", value: "transactionSeconds" },
] as const satisfies readonly { label: string; value: keyof Sample }[];

export function HourCharts({ samples }: { samples: readonly Sample[] }) {
  if (samples.length === 0) {
    return <Empty title="No figures yet">The page collects them while it is open, also in other views.</Empty>;
  }
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="md">
      {CHARTS.map(({ label, value }) => (
        <div key={value} className={classes.chart}>
          <Text size="xs" c="dimmed" mb={4}>
            {label}
          </Text>
          <RateChart label={label} points={samples.map((sample) => ({ at: sample.at, value: sample[value] }))} height={120} />
        </div>
      ))}
    </SimpleGrid>
  );
}

/** Depth, age and failures of the outbox, live. */

import { SimpleGrid } from "@mantine/core";

import type { SystemStatus } from "../../api/system_status";
import { Figure } from "../../ui/figure";
import { formatDuration, formatNumber } from "../../ui/format";

/** Age in seconds above which waiting entries need attention. */
const LONG_WAIT = 60;

export function DepthFigures({ outbox }: { outbox: NonNullable<SystemStatus["outbox"]> }) {
  const { pending, oldestPendingAgeSeconds: age, inFlight, failed, dead } = outbox;
  const waiting = "waiting" as const;
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
      <Figure name="Depth" value={formatNumber(pending)} explanation="entries that can be claimed" />
      <Figure
        name="Oldest"
        value={age === null ? "None" : formatDuration(age)}
        {...((age ?? 0) > LONG_WAIT && { tone: waiting })}
        explanation="age of the oldest of them"
      />
      <Figure
        name="In flight"
        value={formatNumber(inFlight)}
        explanation="claimed under a lease"
        link={{ to: "/outbox", search: { statuses: "IN_FLIGHT" } }}
      />
      <Figure
        name="Failed"
        value={formatNumber(failed)}
        {...(failed > 0 && { tone: waiting })}
        explanation="tried again later"
        link={{ to: "/outbox", search: { statuses: "FAILED" } }}
      />
      <Figure
        name="Dead letters"
        value={formatNumber(dead)}
        {...(dead > 0 && { tone: "bad" as const })}
        explanation="not tried any more"
        link={{ to: "/outbox", search: { statuses: "DEAD" } }}
      />
    </SimpleGrid>
  );
}

/** Figures of the event feed and of the outbox. */

import type { Sample, SystemStatus } from "../../api/system_status";
import { MAX_LAG_SECONDS } from "../../app/slow_shards";
import { Figure } from "../../ui/figure";
import { formatDuration, formatItems, formatNumber, formatRate } from "../../ui/format";

interface FeedProps {
  status: SystemStatus;
  samples: readonly Sample[];
}

export function FeedFigures({ status, samples }: FeedProps) {
  const rate = samples.at(-1)?.eventsPerSecond ?? null;
  const { shards } = status.eventStream;
  const lag = Math.max(0, ...shards.map((shard) => shard.lagSeconds));
  const waiting = shards.reduce((sum, shard) => sum + Number(shard.lagEvents), 0);
  return (
    <>
      <Figure
        name="Events per second"
        value={rate === null ? "–" : formatRate(rate)}
        explanation="published to the stream"
        link={{ to: "/events", search: {} }}
      />
      <Figure
        name="Feed lag"
        value={lag === 0 ? "None" : formatDuration(lag)}
        {...(lag > MAX_LAG_SECONDS && { tone: "waiting" as const })}
        explanation={waiting > 0 ? `${formatItems(waiting, "event")}, ${transactions(status)}` : transactions(status)}
        link={{ to: "/system", hash: "feeds" }}
      />
    </>
  );
}

function transactions({ eventStream }: SystemStatus): string {
  const ages = eventStream.shards.map((shard) => shard.oldestOpenTransactionSeconds).filter((age) => age !== null);
  return ages.length > 0 ? `oldest transaction ${formatDuration(Math.max(...ages))}` : "no open transaction";
}

export function OutboxFigures({ status: { outbox } }: { status: SystemStatus }) {
  if (!outbox) {
    return <Figure name="Outbox" value="–" explanation="could not be counted" link={{ to: "/outbox", search: {} }} />;
  }
  return (
    <Figure
      name="Outbox"
      value={formatNumber(outbox.dead > 0 ? outbox.dead : outbox.pending)}
      {...(outbox.dead > 0 && { tone: "bad" as const })}
      explanation={outboxText(outbox)}
      link={{ to: "/outbox", search: { statuses: outbox.dead > 0 ? "DEAD" : "PENDING" } }}
    />
  );
}

function outboxText({ pending, dead, oldestPendingAgeSeconds: age }: NonNullable<SystemStatus["outbox"]>): string {
  const waiting = age === null ? "no entry waits" : `oldest waits ${formatDuration(age)}`;
  return dead > 0 ? `dead; ${formatNumber(pending)} claimable, ${waiting}` : `claimable, ${waiting}`;
}

/** Figures of the subscription's work, read every five seconds. */

import { useApiQuery } from "../../api/hooks";
import type { ExecutionStatus } from "../../api/schema.generated";
import { Figure } from "../../ui/figure";
import { formatCount } from "../../ui/format";
import { useActivities } from "../subscriptions/activity";
import { SubscriptionWorkDocument, type SubscriptionWorkQuery } from "./operations.generated";

const EVERY_MS = 5_000;
const NOT_READ = "–";

export function WorkFigures({ id }: { id: string }) {
  const { data } = useApiQuery(SubscriptionWorkDocument, { id }, { every: EVERY_MS });
  const activity = useActivities([id]).get(id);
  const stats = data?.data.executionStats ?? null;
  const recent = activity?.recent?.totalCount;
  const duplicates = activity?.duplicates?.totalCount;
  const failed = stats ? countOf(stats, "FAILED") : 0;
  return (
    <>
      <Figure name="Rate" value={recent ? `${formatCount(recent)}/min` : NOT_READ} explanation="executions started in the last minute" />
      <Figure
        name="Executed"
        value={stats ? formatCount({ value: stats.total, capped: stats.capped }) : NOT_READ}
        explanation="executions since registration"
        link={{ to: "/events", search: { parent: id, from: "beginning" } }}
      />
      <Figure name="Running" value={text(stats, "RUNNING")} explanation="started and not ended" />
      <Figure
        name="Failed"
        value={text(stats, "FAILED")}
        {...(failed > 0 && { tone: "bad" as const })}
        explanation="executions that ended with an error"
        link={{ to: "/events", search: { parent: id, statuses: "FAILED", from: "beginning" } }}
      />
      <Figure
        name="Deduplicated"
        value={duplicates ? formatCount(duplicates) : NOT_READ}
        explanation="duplicate messages, not executed again"
        link={{ to: "/events", search: { executions: id, types: "subscription.message.*", from: "beginning" } }}
      />
    </>
  );
}

type Stats = NonNullable<SubscriptionWorkQuery["executionStats"]>;

function countOf(stats: Stats, status: ExecutionStatus): number {
  return stats.byStatus.find((counted) => counted.status === status)?.count ?? 0;
}

function text(stats: Stats | null, status: ExecutionStatus): string {
  return stats ? formatCount({ value: countOf(stats, status), capped: stats.capped }) : NOT_READ;
}

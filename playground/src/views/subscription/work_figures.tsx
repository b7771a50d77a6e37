/** Figures of the subscription's work, read every five seconds. A figure leads to the executions or events that it counts. */

import { useApiQuery } from "../../api/hooks";
import type { ExecutionStatus } from "../../api/schema.generated";
import { Figure } from "../../ui/figure";
import { formatCount } from "../../ui/format";
import { OPEN } from "../executions/filter";
import { DUPLICATES, useActivities } from "../subscriptions/activity";
import { SubscriptionWorkDocument, type SubscriptionWorkQuery } from "./operations.generated";

const EVERY_MS = 5_000;
const NOT_READ = "–";
const FAILED: readonly ExecutionStatus[] = ["FAILED"];

interface Props {
  id: string;
  /** Whether the subscription drains. */
  draining: boolean;
}

export function WorkFigures({ id, draining }: Props) {
  const { data } = useApiQuery(SubscriptionWorkDocument, { id }, { every: EVERY_MS });
  const activity = useActivities([id]).get(id);
  const stats = data?.data.executionStats ?? null;
  const recent = activity?.recent?.totalCount;
  const duplicates = activity?.duplicates?.totalCount;
  const failed = stats ? countOf(stats, FAILED) : 0;
  const executions = (statuses?: readonly ExecutionStatus[]) =>
    ({ to: "/executions", search: { parent: id, statuses: statuses?.join(",") } }) as const;
  return (
    <>
      <Figure name="Rate" value={recent ? `${formatCount(recent)}/min` : NOT_READ} explanation="executions started in the last minute" />
      <Figure
        name="Executed"
        value={stats ? formatCount({ value: stats.total, capped: stats.capped }) : NOT_READ}
        explanation="executions since registration"
        link={executions()}
      />
      <Figure
        name={draining ? "Left to drain" : "Running"}
        value={text(stats, OPEN)}
        explanation="executions that have not ended"
        link={executions(OPEN)}
      />
      <Figure
        name="Failed"
        value={text(stats, FAILED)}
        {...(failed > 0 && { tone: "bad" as const })}
        explanation="executions that ended with an error"
        link={executions(FAILED)}
      />
      <Figure
        name="Deduplicated"
        value={duplicates ? formatCount(duplicates) : NOT_READ}
        explanation="duplicate messages, not executed again"
        link={{ to: "/events", search: { executions: id, types: DUPLICATES, from: "beginning" } }}
      />
    </>
  );
}

type Stats = NonNullable<SubscriptionWorkQuery["executionStats"]>;

function countOf({ byStatus }: Stats, statuses: readonly ExecutionStatus[]): number {
  return byStatus.reduce((sum, { status, count }) => (statuses.includes(status) ? sum + count : sum), 0);
}

function text(stats: Stats | null, statuses: readonly ExecutionStatus[]): string {
  return stats ? formatCount({ value: countOf(stats, statuses), capped: stats.capped }) : NOT_READ;
}

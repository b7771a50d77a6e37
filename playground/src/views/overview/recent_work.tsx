/** Messages, executions and failures of the last five minutes, read every ten seconds. */

import { useApiQuery } from "../../api/hooks";
import { Figure } from "../../ui/figure";
import { formatNumber, formatRate } from "../../ui/format";
import { Failure, Loading } from "../../ui/states";
import { RecentWorkDocument, type RecentWorkQuery } from "./operations.generated";
import { useWindowStart } from "./window_start";

const MINUTES = 5;
const PERIOD = `in the last ${MINUTES} min`;

interface Count {
  total: number;
  /** Whether there are more than were counted. */
  capped: boolean;
  /** Shards whose items were not counted. */
  unavailableShards: readonly number[];
}

export function RecentWork() {
  const since = useWindowStart(MINUTES * 60_000);
  const { data, error, refetch } = useApiQuery(RecentWorkDocument, { since });
  if (!data) {
    return error ? <Failure error={error} retry={refetch} /> : <Loading lines={3} />;
  }
  const { started, failed } = data.data;
  const messages = messagesOf(data.data);
  return (
    <>
      <Figure name="Messages executed" value={text(messages)} explanation={perMinute(messages)} />
      <Figure
        name="Executions started"
        value={text(started)}
        explanation={perMinute(started)}
        link={{ to: "/executions", search: { since: `${MINUTES}m` } }}
      />
      <Figure
        name="Executions failed"
        value={text(failed)}
        explanation={perMinute(failed)}
        {...(failed && failed.total > 0 && { tone: "bad" as const })}
        link={{ to: "/executions", search: { statuses: "FAILED", endedSince: `${MINUTES}m` } }}
      />
    </>
  );
}

/** Returns the number of executions that source subscriptions started: one for each message. */
function messagesOf({ subscriptions }: RecentWorkQuery): Count | null {
  if (!subscriptions) {
    return null;
  }
  const counts = subscriptions.nodes.map((subscription) => subscription.executions?.totalCount ?? null);
  return {
    total: counts.reduce((sum, count) => sum + (count?.value ?? 0), 0),
    capped: subscriptions.pageInfo.hasNextPage || counts.some((count) => count === null || count.capped),
    unavailableShards: subscriptions.unavailableShards,
  };
}

function text(count: Count | null): string {
  return count ? `${isLowerBound(count) ? "≥ " : ""}${formatNumber(count.total)}` : "–";
}

function isLowerBound({ capped, unavailableShards }: Count): boolean {
  return capped || unavailableShards.length > 0;
}

function perMinute(count: Count | null): string {
  if (count && count.unavailableShards.length > 0) {
    return `${PERIOD}, without shard ${count.unavailableShards.join(", ")}`;
  }
  return count && !isLowerBound(count) ? `${PERIOD}, ${formatRate(count.total / MINUTES)}/min` : PERIOD;
}

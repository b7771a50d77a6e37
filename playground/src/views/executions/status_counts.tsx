/** Numbers of the filtered executions by status. A number shows only the executions of its status. */

import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useApiQuery } from "../../api/hooks";
import type { ExecutionFilter } from "../../api/schema.generated";
import { formatNumber } from "../../ui/format";
import { StatusBadge } from "../../ui/status_badge";
import { STATUSES } from "./filter";
import { ExecutionCountsDocument } from "./operations.generated";
import classes from "./status_counts.module.css";

const REFRESH_MS = 5_000;

interface Props {
  filter: ExecutionFilter;
  chosen: readonly string[];
}

export function StatusCounts({ filter, chosen }: Props) {
  const { statuses: _, ...all } = filter;
  const { data, error } = useApiQuery(ExecutionCountsDocument, { filter: all }, { every: REFRESH_MS });
  if (error) {
    return (
      <Text size="xs" c="dimmed" role="status">
        No numbers by status: {error.message}
      </Text>
    );
  }
  const stats = data?.data.executionStats;
  if (!stats) {
    return null;
  }
  const lowerBound = stats.capped || stats.unavailableShards.length > 0;
  const counts = STATUSES.flatMap((status) => stats.byStatus.filter((count) => count.status === status));
  return (
    <nav className={classes.counts} aria-label="Numbers by status">
      <Count label="All" count={stats.total} lowerBound={lowerBound} statuses={undefined} current={chosen.length === 0} />
      {counts.map(({ status, count }) => (
        <Count
          key={status}
          label={<StatusBadge status={status} />}
          count={count}
          lowerBound={lowerBound}
          statuses={status}
          current={chosen.length === 1 && chosen[0] === status}
        />
      ))}
    </nav>
  );
}

interface CountProps {
  label: React.ReactNode;
  count: number;
  /** Whether there may be more than were counted. */
  lowerBound: boolean;
  statuses: string | undefined;
  current: boolean;
}

function Count({ label, count, lowerBound, statuses, current }: CountProps) {
  return (
    <Link
      to="/executions"
      search={(before) => ({ ...before, statuses })}
      className={classes.count}
      activeProps={{}}
      data-current={current}
      aria-current={current}
    >
      {label} <strong>{lowerBound ? "≥ " : ""}{formatNumber(count)}</strong>
    </Link>
  );
}

/**
 * Executions of the last hour, day or month as a chart, read each minute while the page is visible, and more often while it
 * is empty, so that the first execution appears soon. The period is in the address of the view (`period`).
 */

import { SegmentedControl } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import type { Reply } from "../../api/client";
import { useApiQuery } from "../../api/hooks";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { isEmpty } from "./bars";
import { HistoryChart } from "./chart";
import { ExecutionHistoryDocument, type ExecutionHistoryQuery } from "./operations.generated";
import { EMPTY_EVERY_MS, EVERY_MS, periodOf, PERIODS, useTimes } from "./period";
import { HistoryTable } from "./table";

interface Props {
  /** Path of the executions; undefined: all. */
  path?: string;
  /** Whether the title names the path (default false). */
  named?: boolean;
}

export function ExecutionHistory({ path, named = false }: Props) {
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  const period = periodOf(search.period);
  const choose = (chosen: string) =>
    void navigate({ to: ".", search: (before) => ({ ...before, period: chosen }), replace: true, resetScroll: false });
  const variables = { interval: period.interval, ...useTimes(period), paths: path === undefined ? null : [path] };
  // The times of the query move on, so a chart that can't be read again is kept here.
  const shown = `${period.value} ${path ?? ""}`;
  const [kept, setKept] = useState<{ shown: string; data?: Reply<ExecutionHistoryQuery> }>({ shown });
  const isKeptEmpty = kept.data?.data.executionHistory?.buckets.every(isEmpty) ?? false;
  const query = useApiQuery(ExecutionHistoryDocument, variables, { every: isKeptEmpty ? EMPTY_EVERY_MS : EVERY_MS });
  const { error, refetch } = query;
  if (query.data && !query.isPlaceholderData && query.data !== kept.data) {
    setKept({ shown, data: query.data });
  }
  const data = query.data ?? (kept.shown === shown ? kept.data : undefined);
  const history = data?.data.executionHistory;
  const title = `Executions of ${named ? `${path} in ` : ""}the ${period.title}`;
  const content = { label: title, buckets: history?.buckets ?? [], path };
  return (
    <Panel
      title={title}
      actions={
        <SegmentedControl
          size="xs"
          aria-label="Period"
          value={period.value}
          onChange={choose}
          data={PERIODS.map(({ value, label }) => ({ value, label }))}
        />
      }
    >
      {error && <Failure error={error} retry={refetch} />}
      {!data && !error && <Loading lines={4} />}
      {data && <PartialData unavailableShards={history?.unavailableShards ?? []} errors={data.errors} />}
      {history &&
        (content.buckets.every(isEmpty) ? (
          history.unavailableShards.length === 0 && (
            <Empty title="No executions in this time">A bar appears when an execution starts or ends.</Empty>
          )
        ) : (
          <>
            <HistoryChart {...content} />
            <HistoryTable {...content} />
          </>
        ))}
    </Panel>
  );
}

/** The iterations of a loop with status, duration and error, the failed ones first. */

import { Title } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { useApiPages } from "../../api/hooks";
import { DataTable, type Column } from "../../ui/data_table";
import { RunDuration } from "../../ui/run_duration";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { StatusBadge } from "../../ui/status_badge";
import { Duration } from "../../ui/time";
import { eventsUntil } from "./event_ids";
import { FAILURE_STATUSES, ITERATION_TYPES, iterationsOf, type Iteration } from "./iterations";
import { StepEventsDocument } from "./operations.generated";
import { statusInWords } from "./step_words";
import { ErrorOf } from "./steps_table";

const route = getRouteApi("/executions/$id");
const REFRESH_MS = 5_000;
/** Number of rows that are added at a time: a long table is slow. */
const PAGE = 50;

const columns = (moment: string | undefined): readonly Column<Iteration>[] => [
  { title: "Iteration", cell: ({ name }) => name },
  { title: "Status", cell: ({ status }) => <StatusBadge status={status} label={statusInWords(status)} /> },
  { title: "Duration", align: "right", cell: (iteration) => <Lasted iteration={iteration} moment={moment} /> },
  { title: "Error", cell: ({ error }) => error !== null && <ErrorOf error={error} /> },
];

interface Props {
  step: string;
  /** Whether the loop can have more events. */
  running: boolean;
  /** Time of the moment that is shown; undefined: the newest state. */
  moment: string | undefined;
}

export function IterationsTable({ step, running, moment }: Props) {
  const { at } = route.useSearch();
  const [length, setLength] = useState(PAGE);
  // The failures have pages of their own, so that the first ones are those of a long loop too.
  const failures = useStepEvents({ nodeNames: [step], statuses: FAILURE_STATUSES }, running);
  const all = useStepEvents({ nodeNames: [step], types: ITERATION_TYPES }, running);
  const failed = [failures.query, all.query].find(({ error }) => error !== null);
  const failure = failed?.error && <Failure error={failed.error} retry={failed.refetch} />;
  if (!failures.query.data || !all.query.data) {
    return failure ?? <Loading />;
  }
  const iterations = iterationsOf(eventsUntil([...failures.nodes, ...all.nodes], at));
  const unread = [failures.query, all.query].filter(({ hasNextPage }) => hasNextPage);
  const pages = {
    hasNextPage: iterations.length > length || unread.length > 0,
    isFetchingNextPage: unread.some(({ isFetchingNextPage }) => isFetchingNextPage),
    fetchNextPage: () => {
      setLength(length + PAGE);
      unread.forEach((query) => void query.fetchNextPage());
    },
  };
  return (
    <>
      <Title order={3} size="xs" mt="md" mb={4}>
        Iterations
      </Title>
      {failure}
      <PartialData errors={[...failures.errors, ...all.errors]} unavailableShards={all.unavailableShards} />
      <DataTable
        label="Iterations"
        columns={columns(moment)}
        rows={iterations.slice(0, length)}
        rowKey={({ command }) => command}
        empty={<Empty title="No iteration has begun">Iterations appear here when their commands are issued.</Empty>}
        pages={pages}
      />
    </>
  );
}

function useStepEvents(filter: { nodeNames: string[]; statuses?: string[]; types?: string[] }, running: boolean) {
  const { id } = route.useParams();
  const options = running ? { every: REFRESH_MS } : {};
  const pages = useApiPages(StepEventsDocument, { id, filter }, (data) => data.events, options);
  const { refetch } = pages.query;
  // The last events follow the last interval.
  useEffect(() => {
    if (!running) {
      void refetch();
    }
  }, [running, refetch]);
  return pages;
}

/** The time from the start to the end; if the start is not read, the duration that the last event reported. */
function Lasted({ iteration: { startedAt, endedAt, seconds }, moment }: { iteration: Iteration; moment: string | undefined }) {
  return startedAt === null ? <Duration seconds={seconds} /> : <RunDuration from={startedAt} to={endedAt} moment={moment} />;
}

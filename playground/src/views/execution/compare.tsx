/** Two runs of a path side by side: their steps, and the differences of their inputs and results. */

import { Group, Select, Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { useApiQuery } from "../../api/hooks";
import { useZone } from "../../ui/clock";
import { formatTime } from "../../ui/format";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading } from "../../ui/states";
import { useAllSteps } from "./all_steps";
import { CompareDocuments } from "./compare_documents";
import { CompareSteps } from "./compare_steps";
import type { Execution } from "./live_execution";
import { ExecutionDetailDocument, RunsOfPathDocument } from "./operations.generated";

const route = getRouteApi("/executions/$id");

export function Compare({ execution }: { execution: Execution }) {
  const { compare } = route.useSearch();
  const enabled = compare !== undefined;
  const { data, error, isPlaceholderData, refetch } = useApiQuery(ExecutionDetailDocument, { id: compare ?? "" }, { enabled });
  const other = isPlaceholderData ? undefined : data?.data.execution;
  return (
    <Stack gap="md">
      <OtherRun execution={execution} compare={compare} />
      {!enabled && <Empty title="Choose another run">Its steps, inputs and results appear beside those of this run.</Empty>}
      {enabled && error && <Failure error={error} retry={refetch} />}
      {enabled && !error && other === undefined && <Loading />}
      {enabled && other === null && <Empty title="There is no such run">Choose another run in the list.</Empty>}
      {enabled && other && (
        <>
          <StepsOfBoth left={execution} right={other} />
          <CompareDocuments title="Input" left={execution.workload} right={other.workload} />
          <CompareDocuments title="Result" left={execution.result} right={other.result} />
          <CompareDocuments title="Variables" left={execution.context} right={other.context} />
        </>
      )}
    </Stack>
  );
}

function StepsOfBoth({ left, right }: { left: Execution; right: Execution }) {
  const { execution: complete, error } = useAllSteps(right);
  return (
    <Panel title="Steps">
      {error && <Failure error={error} />}
      <CompareSteps left={left} right={complete} />
    </Panel>
  );
}

interface OtherProps {
  execution: Execution;
  compare: string | undefined;
}

function OtherRun({ execution, compare }: OtherProps) {
  const navigate = route.useNavigate();
  const zone = useZone();
  const path = execution.path ?? "";
  const { data } = useApiQuery(RunsOfPathDocument, { path }, { enabled: path !== "" });
  const runs = (data?.data.executions?.nodes ?? [])
    .filter(({ id }) => id !== execution.id)
    .map(({ id, status, startedAt }) => ({
      value: id,
      label: `${status.toLowerCase()}, ${startedAt === null ? "not started" : formatTime(startedAt, zone)}, ${id}`,
    }));
  const listed = compare === undefined || runs.some(({ value }) => value === compare);
  const choose = (id: string | null) =>
    void navigate({ search: (before) => ({ ...before, compare: id ?? undefined }), resetScroll: false });
  return (
    <Group gap="sm" align="flex-end">
      <Select
        label="Compare with"
        description={`The newest runs of ${path}`}
        size="xs"
        w={{ base: "100%", sm: 480 }}
        searchable
        clearable
        data={listed ? runs : [{ value: compare, label: compare }, ...runs]}
        value={compare ?? null}
        onChange={choose}
        nothingFoundMessage="No other run"
      />
      <Text size="xs" c="dimmed">
        Left: this run. Right: the other run.
      </Text>
    </Group>
  );
}

/** Two runs of a path side by side: their steps and errors, and the differences of their inputs and results. */

import { Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { useApiQuery } from "../../api/hooks";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading } from "../../ui/states";
import { useAllSteps } from "./all_steps";
import { CompareDocuments } from "./compare_documents";
import { CompareErrors } from "./compare_errors";
import { CompareSteps } from "./compare_steps";
import type { Execution } from "./live_execution";
import { ExecutionDetailDocument } from "./operations.generated";
import { OtherRun } from "./other_run";

const route = getRouteApi("/executions/$id");

export function Compare({ execution }: { execution: Execution }) {
  const { compare } = route.useSearch();
  const enabled = compare !== undefined;
  const { data, error, isPlaceholderData, refetch } = useApiQuery(ExecutionDetailDocument, { id: compare ?? "" }, { enabled });
  const other = isPlaceholderData ? undefined : data?.data.execution;
  return (
    <Stack gap="md">
      <OtherRun key={execution.id} execution={execution} compare={compare} missing={other === null} />
      {!enabled && <Empty title="Choose another run">Its steps, errors, inputs and results appear beside those of this run.</Empty>}
      {enabled && error && <Failure error={error} retry={refetch} />}
      {enabled && !error && other === undefined && <Loading />}
      {enabled && other === null && <Empty title="There is no such run">Choose another run in the list, or check the id.</Empty>}
      {enabled && other && (
        <>
          {other.path !== execution.path && (
            <Text size="sm" role="note">
              The other run is of another path: {other.path ?? "unknown"}.
            </Text>
          )}
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
    <>
      <Panel title="Steps">
        {error && <Failure error={error} />}
        <CompareSteps left={left} right={complete} />
      </Panel>
      <Panel title="Errors">
        {error && <Failure error={error} />}
        <CompareErrors left={left} right={complete} />
      </Panel>
    </>
  );
}

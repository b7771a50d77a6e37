/** Starts an execution of a catalog path, with the defaults of its workload or with the workload of another execution. */

import { Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { useApiQuery } from "../../api/hooks";
import { IdLink } from "../../ui/id_link";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { ViewPage } from "../../ui/view_page";
import { EntryChoice } from "./entry_choice";
import { ExecuteForm } from "./execute_form";
import { WorkloadOfEntryDocument, WorkloadOfExecutionDocument } from "./operations.generated";

const route = getRouteApi("/execute");

export function ExecuteView() {
  const { path } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <ViewPage title="Execute">
      <Panel title="Catalog entry">
        <EntryChoice path={path} onChange={(chosen) => void navigate({ search: chosen === undefined ? {} : { path: chosen } })} />
      </Panel>
      {path === undefined ? (
        <Empty title="Choose a catalog path">A form with the defaults of its workload appears here.</Empty>
      ) : (
        <Entry path={path} />
      )}
    </ViewPage>
  );
}

function Entry({ path }: { path: string }) {
  const { from } = route.useSearch();
  const entry = useApiQuery(WorkloadOfEntryDocument, { path });
  const repeated = useApiQuery(WorkloadOfExecutionDocument, { id: from ?? "" }, { enabled: from !== undefined });
  const error = entry.error ?? repeated.error;
  if (error) {
    return <Failure error={error} retry={() => void Promise.all([entry.refetch(), repeated.refetch()])} />;
  }
  const execution = from === undefined ? undefined : repeated.data?.data.execution;
  const waits = entry.isPlaceholderData || !entry.data || (from !== undefined && (!repeated.data || repeated.isPlaceholderData));
  if (waits) {
    return <Loading lines={6} />;
  }
  const found = entry.data.data.catalogEntry;
  if (!found) {
    return <Empty title="The catalog has no such path">Choose another path, or register the playbook in the catalog.</Empty>;
  }
  return (
    <>
      <PartialData errors={entry.data.errors} />
      {from !== undefined && (
        <Repeated
          id={from}
          found={execution !== null}
          version={execution?.catalogEntry?.version}
          newest={found.version}
        />
      )}
      <ExecuteForm key={`${found.catalogId} ${from}`} entry={found} repeated={execution ?? undefined} />
    </>
  );
}

interface RepeatedProps {
  id: string;
  found: boolean;
  version: number | undefined;
  newest: number;
}

function Repeated({ id, found, version, newest }: RepeatedProps) {
  if (!found) {
    return <Empty title={`There is no execution ${id}`}>The form has the defaults instead.</Empty>;
  }
  return (
    <Text size="sm" component="div" role="note">
      The form has the workload of <IdLink kind="execution" id={id} />
      {version !== undefined && version !== newest && `, which ran version ${version}. This request runs version ${newest}.`}
    </Text>
  );
}

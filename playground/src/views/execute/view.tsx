/** Starts an execution of a catalog path, with the defaults of its workload or with the workload of another execution. */

import { Stack, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { useApiQuery } from "../../api/hooks";
import { IdLink } from "../../ui/id_link";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { ViewPage } from "../../ui/view_page";
import { EntryChoice } from "./entry_choice";
import { ExecuteForm } from "./execute_form";
import { WorkloadOfEntryDocument, WorkloadOfExecutionDocument } from "./operations.generated";
import { entryKey, VersionChoice } from "./version_choice";

const route = getRouteApi("/execute");

export function ExecuteView() {
  const { path, version } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <ViewPage title="Execute">
      <Panel title="Catalog entry">
        <Stack gap="sm">
          <EntryChoice path={path} onChange={(chosen) => void navigate({ search: chosen === undefined ? {} : { path: chosen } })} />
          {path !== undefined && (
            <VersionChoice
              path={path}
              version={version}
              onChange={(chosen) => void navigate({ search: (before) => ({ ...before, version: chosen }) })}
            />
          )}
        </Stack>
      </Panel>
      {path === undefined ? (
        <Empty title="Choose a catalog path">A form with the defaults of its workload appears here.</Empty>
      ) : (
        <Entry path={path} version={version} />
      )}
    </ViewPage>
  );
}

function Entry({ path, version }: { path: string; version: string | undefined }) {
  const { from } = route.useSearch();
  const entry = useApiQuery(WorkloadOfEntryDocument, { by: entryKey(path, version) });
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
    return version === undefined ? (
      <Empty title="The catalog has no such path">Choose another path, or register the playbook in the catalog.</Empty>
    ) : (
      <Empty title={`The path has no version ${version}`}>Choose another version.</Empty>
    );
  }
  return (
    <>
      <PartialData errors={entry.data.errors} />
      {from !== undefined && (
        <Repeated
          id={from}
          found={execution !== null}
          version={execution?.catalogEntry?.version}
          requested={found.version}
        />
      )}
      <ExecuteForm
        key={`${found.catalogId} ${from}`}
        entry={found}
        newest={version === undefined}
        repeated={execution ?? undefined}
      />
    </>
  );
}

interface RepeatedProps {
  id: string;
  found: boolean;
  version: number | undefined;
  /** Version that this request runs. */
  requested: number;
}

function Repeated({ id, found, version, requested }: RepeatedProps) {
  if (!found) {
    return <Empty title={`There is no execution ${id}`}>The form has the defaults instead.</Empty>;
  }
  return (
    <Text size="sm" component="div" role="note">
      The form has the workload of <IdLink kind="execution" id={id} />
      {version !== undefined && version !== requested && `, which ran version ${version}. This request runs version ${requested}.`}
    </Text>
  );
}

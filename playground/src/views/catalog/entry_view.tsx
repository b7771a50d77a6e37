/** A version of a catalog entry: its content, the difference to another version, its versions, and what uses it. */

import { Group } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { useApiQuery } from "../../api/hooks";
import { isExecutable } from "../../app/path_links";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { Time } from "../../ui/time";
import { ViewPage } from "../../ui/view_page";
import { ExecutionHistory } from "../execution_history/panel";
import { keyOf, type Entry } from "./entry";
import { EntryActions } from "./entry_actions";
import { EntryContent } from "./entry_content";
import { EntryFacts } from "./entry_facts";
import { EntrySteps } from "./entry_steps";
import { KindBadge } from "./kind_badge";
import { CatalogEntryViewDocument } from "./operations.generated";
import { RegisterVersion } from "./register_version";
import { RetiredBadge } from "./retired_badge";
import classes from "./entry_view.module.css";

const route = getRouteApi("/catalog/$");

export function EntryView() {
  const { _splat: path = "" } = route.useParams();
  const { version, show } = route.useSearch();
  const variables = { by: keyOf(path, version) };
  const { data, error, refetch } = useApiQuery(CatalogEntryViewDocument, variables);
  const entry = data?.data.catalogEntry;
  if (!entry || entry.path !== path) {
    return (
      <ViewPage title={path}>
        {error ? <Failure error={error} retry={refetch} /> : data && !entry ? <Missing version={version} /> : <Loading lines={8} />}
      </ViewPage>
    );
  }
  return (
    <ViewPage
      title={path}
      description={<Summary entry={entry} />}
      actions={
        <>
          <EntryActions entry={entry} />
          <OpenAsGraphql document={CatalogEntryViewDocument} variables={variables} />
        </>
      }
    >
      {error && <Failure error={error} retry={refetch} />}
      <PartialData errors={data.errors} />
      {show === "register" ? (
        <RegisterVersion entry={entry} />
      ) : (
        <>
          {isExecutable(entry.kind) && <ExecutionHistory key={path} path={path} />}
          {isExecutable(entry.kind) && <EntrySteps key={path} path={path} />}
          <div className={classes.columns}>
            <EntryContent entry={entry} />
            <EntryFacts entry={entry} />
          </div>
        </>
      )}
    </ViewPage>
  );
}

function Summary({ entry }: { entry: Entry }) {
  return (
    <Group gap="xs">
      <KindBadge {...entry} />
      {entry.archivedAt !== null && <RetiredBadge />}
      <span>
        Version {entry.version} {place(entry)}
      </span>
      <span>
        Registered <Time value={entry.createdAt} />
      </span>
    </Group>
  );
}

/** Returns the place of a version among the versions of its path that are not retired. */
function place({ version, archivedAt, versions }: Entry): string {
  if (!versions) {
    return "";
  }
  const newest = versions.nodes.find((one) => one.archivedAt === null)?.version;
  if (newest === undefined) {
    return archivedAt === null ? "" : "(no version is in use)";
  }
  return version === newest ? "(newest)" : `(newest: ${newest})`;
}

function Missing({ version }: { version: string | undefined }) {
  return version === undefined ? (
    <Empty title="The catalog has no such path">
      Check the path, or look for it in the catalog. If all of its versions are retired, switch on “Retired too” there.
    </Empty>
  ) : (
    <Empty title={`The path has no version ${version}`}>Open it without a version to see the newest one.</Empty>
  );
}

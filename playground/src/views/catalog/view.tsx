/** The catalog: its paths with their kinds and versions, and the registration of an entry with a new path. */

import { Text } from "@mantine/core";
import { IconFilePlus } from "@tabler/icons-react";
import { getRouteApi } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";

import { useApiPages } from "../../api/hooks";
import { part } from "../../app/parts";
import { DataTable, type Column } from "../../ui/data_table";
import { ExportMenu } from "../../ui/export_menu";
import { formatCount } from "../../ui/format";
import { LongText } from "../../ui/long_text";
import { OpenAsGraphql } from "../../ui/open_as_graphql";
import { PermittedButton } from "../../ui/permitted_button";
import { Empty, Failure, Loading, PartialData } from "../../ui/states";
import { TextLink } from "../../ui/text_link";
import { Time } from "../../ui/time";
import { ViewPage } from "../../ui/view_page";
import { CatalogFilters, filterOf } from "./catalog_filters";
import { KindBadge } from "./kind_badge";
import { CatalogEntriesDocument, type CatalogEntriesQuery } from "./operations.generated";
import { RetiredBadge } from "./retired_badge";
import classes from "./view.module.css";

const RegisterNewEntry = lazy(part(() => import("./register_new_entry")));
const PAGE = 50;
const route = getRouteApi("/catalog/");

type Row = NonNullable<CatalogEntriesQuery["catalogEntries"]>["nodes"][number];

const COLUMNS: readonly Column<Row>[] = [
  {
    title: "Path",
    cell: ({ path, version }) => (
      <LongText
        text={path}
        name="path"
        link={(shown) => (
          <TextLink to="/catalog/$" params={{ _splat: path }} search={{ version: String(version) }} size="sm" aria-label={path}>
            {shown}
          </TextLink>
        )}
      />
    ),
  },
  { title: "Kind", cell: (entry) => <KindBadge {...entry} /> },
  {
    title: "Version",
    align: "right",
    cell: ({ version, archivedAt }) => (
      <>
        {archivedAt !== null && <RetiredBadge />} {version}
      </>
    ),
  },
  { title: "Name", cell: ({ name }) => name ?? "–" },
  { title: "Registered", cell: ({ createdAt }) => <Time value={createdAt} /> },
  {
    title: "Description",
    cell: ({ description }) => (
      <Text size="sm" c="dimmed" truncate className={classes.description!} title={description ?? ""}>
        {description}
      </Text>
    ),
  },
];

/** Columns of the list as a file. */
const EXPORTED: readonly string[] = [
  "id",
  "path",
  "version",
  "kind",
  "kindText",
  "name",
  "description",
  "createdAt",
  "archivedAt",
];

export function CatalogView() {
  const { kind, prefix, text, versions, retired, register } = route.useSearch();
  const navigate = route.useNavigate();
  const variables = useMemo(
    () => ({ filter: filterOf({ kind, prefix, text, versions, retired }), first: PAGE }),
    [kind, prefix, text, versions, retired],
  );
  if (register !== undefined) {
    return (
      <Suspense fallback={<Loading />}>
        <RegisterNewEntry />
      </Suspense>
    );
  }
  return (
    <ViewPage
      title="Catalog"
      actions={
        <>
          <PermittedButton
            capability="CATALOG"
            leftSection={<IconFilePlus size={14} />}
            onClick={() => void navigate({ search: (before) => ({ ...before, register: "new" }) })}
          >
            Register an entry
          </PermittedButton>
          <ExportMenu
            name="catalog"
            document={CatalogEntriesDocument}
            variables={{ filter: variables.filter }}
            select={(data) => data.catalogEntries}
            columns={EXPORTED}
          />
          <OpenAsGraphql document={CatalogEntriesDocument} variables={variables} />
        </>
      }
    >
      <CatalogFilters />
      <Entries variables={variables} filtered={[kind, prefix, text].some((condition) => condition !== undefined)} />
    </ViewPage>
  );
}

interface EntriesProps {
  variables: { filter: ReturnType<typeof filterOf>; first: number };
  filtered: boolean;
}

function Entries({ variables, filtered }: EntriesProps) {
  const { query, nodes, unavailableShards, errors } = useApiPages(
    CatalogEntriesDocument,
    variables,
    (data) => data.catalogEntries,
  );
  const failure = query.error && <Failure error={query.error} retry={query.refetch} />;
  if (!query.data) {
    return failure ?? <Loading />;
  }
  const total = query.data.pages[0]?.data.catalogEntries?.totalCount;
  return (
    <section aria-label="Entries">
      {failure}
      <PartialData unavailableShards={unavailableShards} errors={errors} />
      {total && nodes.length > 0 && (
        <Text size="xs" c="dimmed" mb={4} role="status">
          {formatCount(total)} {total.value === 1 ? "entry" : "entries"}
        </Text>
      )}
      <DataTable
        label="Catalog entries"
        columns={COLUMNS}
        rows={nodes}
        rowKey={(entry) => entry.id}
        empty={errors.length === 0 && <NoEntries filtered={filtered} />}
          pages={query}
          endless
      />
    </section>
  );
}

function NoEntries({ filtered }: { filtered: boolean }) {
  return filtered ? (
    <Empty title="No entry matches the filter">Clear a condition. A path prefix is compared exactly.</Empty>
  ) : (
    <Empty title="The catalog is empty">Register a playbook or a subscription to begin.</Empty>
  );
}

/** Filter of the catalog. All conditions are in the address, and the server applies them. */

import { Select, Switch } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import type { CatalogFilter, CatalogKind } from "../../api/schema.generated";
import { FilterBar, FilterText } from "../../ui/filter_bar";
import filterClasses from "../../ui/filter_bar.module.css";
import type { CatalogSearch } from "./search";

const route = getRouteApi("/catalog/");
const ANY = "any";

export const KINDS: readonly { value: CatalogKind; label: string }[] = [
  { value: "PLAYBOOK", label: "Playbook" },
  { value: "SUBSCRIPTION", label: "Subscription" },
  { value: "AGENT", label: "Agent" },
  { value: "CREDENTIAL", label: "Credential" },
  { value: "MCP", label: "MCP" },
  { value: "MEMORY", label: "Memory" },
];
const VERSIONS = [
  { value: "newest", label: "Newest of each path" },
  { value: "all", label: "All versions" },
];

/** Returns the filter of the server. An empty condition is left out. */
export function filterOf({ kind, prefix, text, versions, retired }: CatalogSearch): CatalogFilter {
  return {
    latestOnly: versions !== "all",
    ...(kind !== undefined && { kinds: [kind as CatalogKind] }),
    ...(prefix !== undefined && { pathPrefix: prefix }),
    ...(text !== undefined && { text }),
    ...(retired !== undefined && { includeArchived: true }),
  };
}

export function CatalogFilters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const active = Object.values(search).some((value) => value !== undefined);

  function apply(change: CatalogSearch) {
    void navigate({ search: (before) => ({ ...before, ...change }) });
  }

  return (
    <FilterBar active={active} onClear={() => void navigate({ search: {} })}>
      <FilterText label="Path begins with" placeholder="samples/" value={search.prefix} onApply={(prefix) => apply({ prefix })} />
      <FilterText label="Path or name contains" placeholder="Any text" value={search.text} onApply={(text) => apply({ text })} />
      <Select
        label="Kind"
        size="xs"
        className={filterClasses.field!}
        data={[{ value: ANY, label: "Any kind" }, ...KINDS]}
        value={search.kind ?? ANY}
        onChange={(kind) => apply({ kind: kind === null || kind === ANY ? undefined : kind })}
        allowDeselect={false}
      />
      <Select
        label="Versions"
        size="xs"
        className={filterClasses.field!}
        data={VERSIONS}
        value={search.versions ?? "newest"}
        onChange={(versions) => apply({ versions: versions === "all" ? versions : undefined })}
        allowDeselect={false}
      />
      <Switch
        label="Retired too"
        size="xs"
        pb={6}
        checked={search.retired !== undefined}
        onChange={(event) => apply({ retired: event.currentTarget.checked ? "too" : undefined })}
      />
    </FilterBar>
  );
}

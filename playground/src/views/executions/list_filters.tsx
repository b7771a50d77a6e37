/** Filter of the list. The server filters, and the address has the filter. */

import { Autocomplete, MultiSelect } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { useApiQuery } from "../../api/hooks";
import { FilterBar, FilterText } from "../../ui/filter_bar";
import filterClasses from "../../ui/filter_bar.module.css";
import { STATUSES, statusesOf } from "./filter";
import { ExecutedPathsDocument } from "./operations.generated";
import type { ExecutionsSearch } from "./route";
import { TimeFilter } from "./time_filter";

const route = getRouteApi("/executions");
const NAMES = STATUSES.map((status) => ({ value: status, label: status.charAt(0) + status.slice(1).toLowerCase() }));

export function ListFilters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const apply = (change: ExecutionsSearch) => void navigate({ search: (before) => ({ ...before, ...change }) });
  return (
    <FilterBar active={Object.keys(search).length > 0} onClear={() => void navigate({ search: {} })}>
      <MultiSelect
        label="Statuses"
        size="xs"
        className={filterClasses.field!}
        data={NAMES}
        value={statusesOf(search.statuses)}
        onChange={(statuses) => apply({ statuses: statuses.join(",") || undefined })}
        placeholder={search.statuses === undefined ? "All" : ""}
      />
      <PathFilter value={search.path} onApply={(path) => apply({ path })} />
      <FilterText label="Started by" placeholder="Id of a parent" value={search.parent} onApply={(parent) => apply({ parent })} />
      <TimeFilter since={search.since} until={search.until} onChange={apply} />
    </FilterBar>
  );
}

interface PathProps {
  value: string | undefined;
  onApply: (path: string | undefined) => void;
}

/** Offers the executed paths. A `*` at the end matches all paths that begin with the text. */
function PathFilter({ value = "", onApply }: PathProps) {
  const { data } = useApiQuery(ExecutedPathsDocument, {});
  const [draft, setDraft] = useState(value);
  const [applied, setApplied] = useState(value);
  // The address can change without this field: by a link, by the history, or by Clear.
  if (value !== applied) {
    setApplied(value);
    setDraft(value);
  }
  const apply = (text: string) => text.trim() !== value && onApply(text.trim() || undefined);
  const paths = (data?.data.executionStats?.byPath ?? []).flatMap(({ path }) => path ?? []);
  return (
    <Autocomplete
      label="Path"
      size="xs"
      className={filterClasses.field!}
      placeholder="samples/orders/*"
      data={[...new Set(paths)]}
      value={draft}
      onChange={setDraft}
      onOptionSubmit={apply}
      onBlur={() => apply(draft)}
      onKeyDown={(event) => event.key === "Enter" && apply(draft)}
      spellCheck={false}
    />
  );
}

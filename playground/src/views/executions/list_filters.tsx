/** Filter and order of the list. The server filters and orders, and the address has both. */

import { Autocomplete, MultiSelect, Select } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import { useApiQuery } from "../../api/hooks";
import { FilterBar, FilterText } from "../../ui/filter_bar";
import filterClasses from "../../ui/filter_bar.module.css";
import { FilterFlag } from "../../ui/filter_choices";
import { DEDUP_HINT, ERROR_HINT, STATUSES, statusesOf, VERSION_HINT } from "./filter";
import { ExecutedPathsDocument } from "./operations.generated";
import { NEWEST, ORDERS, orderOf } from "./order";
import type { ExecutionsSearch } from "./search";
import { TimeFilter } from "./time_filter";

const route = getRouteApi("/executions");
/** Paths often differ only at their end, so their list is wider than the field. */
const PATHS = { width: "clamp(16rem, 90vw, 32rem)", position: "bottom-start" } as const;
const WRAPPED = { option: { overflowWrap: "anywhere" } } as const;
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
      <FilterFlag
        label="Failed steps"
        value={search.failedSteps}
        yes="With failed steps"
        no="Without failed steps"
        onApply={(failedSteps) => apply({ failedSteps })}
      />
      <FilterText label="Error contains" hint={ERROR_HINT} value={search.error} onApply={(error) => apply({ error })} />
      <PathFilter value={search.path} onApply={(path) => apply({ path })} />
      <FilterText label="Version" hint={VERSION_HINT} value={search.version} onApply={(version) => apply({ version })} />
      <FilterText label="Pool" placeholder="Names of pools" value={search.pool} onApply={(pool) => apply({ pool })} />
      <FilterText label="Labels" placeholder="order_id=17, team" value={search.labels} onApply={(labels) => apply({ labels })} />
      <FilterText label="Dedup key" hint={DEDUP_HINT} value={search.dedup} onApply={(dedup) => apply({ dedup })} />
      <FilterText label="Id begins with" value={search.id} onApply={(id) => apply({ id })} />
      <FilterText label="Parent" placeholder="Id of a parent" value={search.parent} onApply={(parent) => apply({ parent })} />
      <FilterText
        label="Rerun of"
        placeholder="Id of an execution"
        value={search.rerunOf}
        onApply={(rerunOf) => apply({ rerunOf })}
      />
      <FilterFlag
        label="Reruns"
        value={search.reruns}
        yes="Only reruns"
        no="No reruns"
        onApply={(reruns) => apply({ reruns })}
      />
      <TimeFilter label="Started" since={search.since} until={search.until} onChange={apply} />
      <TimeFilter
        label="Ended"
        since={search.endedSince}
        until={search.endedUntil}
        onChange={(change) =>
          apply({
            ...("since" in change && { endedSince: change.since }),
            ...("until" in change && { endedUntil: change.until }),
          })
        }
      />
      <Select
        label="Order"
        size="xs"
        className={filterClasses.field!}
        data={[...ORDERS]}
        value={orderOf(search.order)}
        onChange={(order) => apply({ order: order === null || order === NEWEST ? undefined : order })}
        allowDeselect={false}
      />
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
      comboboxProps={PATHS}
      styles={WRAPPED}
      title={value}
      value={draft}
      onChange={setDraft}
      onOptionSubmit={apply}
      onBlur={() => apply(draft)}
      onKeyDown={(event) => event.key === "Enter" && apply(draft)}
      spellCheck={false}
    />
  );
}

/** Filter of the actions. The server filters; only the text is searched for in the page. */

import { Select } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { FilterBar, FilterText } from "../../ui/filter_bar";
import filterClasses from "../../ui/filter_bar.module.css";
import { TimeFilter } from "../executions/time_filter";
import { ACTIONS } from "./entry";
import type { AuditSearch } from "./search";

const route = getRouteApi("/audit");
const CHANGES = "changes";
const CHOICES = [
  { value: CHANGES, label: "Changes and reruns" },
  ...ACTIONS.map(({ value, label }) => ({ value, label })),
];

export function AuditFilters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const apply = (change: AuditSearch) => void navigate({ search: (before) => ({ ...before, ...change }) });
  const action = ACTIONS.some(({ value }) => value === search.action) ? search.action! : CHANGES;
  return (
    <FilterBar active={Object.keys(search).length > 0} onClear={() => void navigate({ search: {} })}>
      <Select
        label="Action"
        size="xs"
        className={filterClasses.field!}
        data={CHOICES}
        value={action}
        onChange={(value) => apply({ action: value === null || value === CHANGES ? undefined : value })}
        allowDeselect={false}
      />
      <FilterText
        label="Path"
        placeholder="samples/orders/process"
        value={search.path}
        onApply={(path) => apply({ path })}
      />
      <TimeFilter label="Time" since={search.since} until={search.until} onChange={apply} />
      <FilterText
        label="Find in the list"
        placeholder="Caller, reason or id"
        value={search.find}
        onApply={(find) => apply({ find })}
      />
    </FilterBar>
  );
}

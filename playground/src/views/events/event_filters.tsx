/** Filter of the events. The server filters; only the text search is in the page. */

import { getRouteApi } from "@tanstack/react-router";

import { FilterBar, FilterText } from "../../ui/filter_bar";
import type { EventsSearch } from "./search";
import { StartChoice } from "./start_choice";

const route = getRouteApi("/events");
const FIELDS = [
  { name: "types", label: "Types", placeholder: "subscription.*" },
  { name: "executions", label: "Executions", placeholder: "Ids" },
  { name: "parent", label: "Parent", placeholder: "Id of a parent" },
  { name: "nodes", label: "Nodes", placeholder: "Names of steps" },
  { name: "statuses", label: "Statuses", placeholder: "FAILED" },
  { name: "find", label: "Find in the list", placeholder: "Any text" },
] as const satisfies readonly { name: keyof EventsSearch; label: string; placeholder: string }[];

export function EventFilters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const active = FIELDS.some(({ name }) => search[name] !== undefined);

  function apply(change: EventsSearch) {
    void navigate({ search: (before) => ({ ...before, ...change }) });
  }

  return (
    <FilterBar active={active} onClear={() => void navigate({ search: ({ from, event }) => ({ from, event }) })}>
      {FIELDS.map(({ name, label, placeholder }) => (
        <FilterText
          key={name}
          label={label}
          placeholder={placeholder}
          value={search[name]}
          onApply={(value) => apply({ [name]: value })}
        />
      ))}
      <StartChoice from={search.from} onChange={(from) => apply({ from })} />
    </FilterBar>
  );
}

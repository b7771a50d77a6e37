/** Filter of the entries. The server filters; only the text is searched for in the page. */

import { getRouteApi } from "@tanstack/react-router";

import { FilterBar, FilterText } from "../../ui/filter_bar";
import { FilterChoices } from "../../ui/filter_choices";
import { STATUSES } from "./filter";
import type { OutboxSearch } from "./search";

const route = getRouteApi("/outbox");
const FIELDS = [
  { name: "execution", label: "Execution", placeholder: "Id" },
  { name: "attempts", label: "Claimed at least", placeholder: "Number of times" },
  { name: "find", label: "Find in the list", placeholder: "Subject or error" },
] as const satisfies readonly { name: keyof OutboxSearch; label: string; placeholder: string }[];

export function OutboxFilters() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const active = search.statuses !== undefined || FIELDS.some(({ name }) => search[name] !== undefined);
  function apply(change: OutboxSearch) {
    void navigate({ search: (before) => ({ ...before, ...change }), resetScroll: false });
  }
  return (
    <FilterBar active={active} onClear={() => void navigate({ search: ({ entry }) => ({ entry }), resetScroll: false })}>
      <FilterChoices
        label="Status"
        value={search.statuses}
        choices={STATUSES}
        onApply={(value) => apply({ statuses: value })}
      />
      {FIELDS.map(({ name, label, placeholder }) => (
        <FilterText
          key={name}
          label={label}
          placeholder={placeholder}
          value={search[name]}
          onApply={(value) => apply({ [name]: value })}
        />
      ))}
    </FilterBar>
  );
}

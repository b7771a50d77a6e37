/** Filter of the events. The server filters; only the text search is in the page. */

import { Select } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { FilterBar, FilterText } from "../../ui/filter_bar";
import type { EventsSearch } from "./route";
import filterClasses from "../../ui/filter_bar.module.css";

const route = getRouteApi("/events");
const FIELDS = [
  { name: "types", label: "Types", placeholder: "subscription.*" },
  { name: "executions", label: "Executions", placeholder: "Ids" },
  { name: "parent", label: "Started by", placeholder: "Id of a parent" },
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

const MINUTE_MS = 60_000;
const STARTS = [
  { value: "now", label: "Now" },
  { value: "5", label: "5 minutes ago" },
  { value: "60", label: "1 hour ago" },
  { value: "1440", label: "1 day ago" },
  { value: "beginning", label: "Beginning of the stream" },
];

interface StartProps {
  from: string | undefined;
  onChange: (from: string | undefined) => void;
}

function StartChoice({ from, onChange }: StartProps) {
  const known = from === undefined ? "now" : from;
  const other = STARTS.some((start) => start.value === known) ? [] : [{ value: known, label: startName(known) }];
  function choose(value: string | null) {
    if (value === null || value === "now") {
      onChange(undefined);
    } else if (/^\d+$/.test(value)) {
      onChange(new Date(Date.now() - Number(value) * MINUTE_MS).toISOString());
    } else {
      onChange(value);
    }
  }
  return (
    <Select
      label="Start"
      size="xs"
      className={filterClasses.field!}
      data={[...other, ...STARTS]}
      value={known}
      onChange={choose}
      allowDeselect={false}
    />
  );
}

function startName(from: string): string {
  return from.startsWith("cursor:") ? "After a cursor" : `Since ${from.slice(0, 19).replace("T", " ")} UTC`;
}

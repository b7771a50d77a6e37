/** The start of the events: now, a time before now, a chosen time, a cursor, or the beginning of the stored events. */

import { Select, TextInput } from "@mantine/core";
import { useState } from "react";

import { useZone } from "../../ui/clock";
import { FilterText } from "../../ui/filter_bar";
import filterClasses from "../../ui/filter_bar.module.css";
import { formatLocalInput, parseLocalInput } from "../../ui/format";
import { cursorOf, fromCursor } from "./stream_variables";

const MINUTE_MS = 60_000;
const STARTS = [
  { value: "now", label: "Now" },
  { value: "5", label: "5 minutes ago" },
  { value: "60", label: "1 hour ago" },
  { value: "1440", label: "1 day ago" },
  { value: "beginning", label: "Beginning" },
  { value: "time", label: "At a time" },
  { value: "cursor", label: "After a cursor" },
];

interface Props {
  from: string | undefined;
  onChange: (from: string | undefined) => void;
}

export function StartChoice({ from, onChange }: Props) {
  // The address has no start while the user has chosen a kind of start, but has not typed it.
  const [wanted, setWanted] = useState<"time" | "cursor" | null>(null);
  const shown = wanted ?? kindOf(from);
  function choose(value: string | null) {
    setWanted(value === "time" || value === "cursor" ? value : null);
    if (value === "now") {
      onChange(undefined);
    } else if (value === "beginning") {
      onChange(value);
    } else if (/^\d+$/.test(value ?? "")) {
      onChange(new Date(Date.now() - Number(value) * MINUTE_MS).toISOString());
    }
  }
  function start(changed: string | undefined) {
    setWanted(null);
    onChange(changed);
  }
  return (
    <>
      <Select
        label="Start"
        size="xs"
        className={filterClasses.field!}
        data={STARTS}
        value={shown}
        onChange={choose}
        allowDeselect={false}
      />
      {shown === "time" && <TimeField from={kindOf(from) === "time" ? from : undefined} onChange={start} />}
      {shown === "cursor" && (
        <FilterText
          label="Start cursor"
          placeholder="Cursor of an event"
          value={cursorOf(from)}
          onApply={(cursor) => start(cursor && fromCursor(cursor))}
        />
      )}
    </>
  );
}

function TimeField({ from, onChange }: Props) {
  const zone = useZone();
  const [draft, setDraft] = useState<string | null>(null);
  const set = from === undefined ? "" : formatLocalInput(from, zone);
  function apply() {
    const time = draft === null ? null : parseLocalInput(draft, zone);
    setDraft(null);
    if (time !== null && draft !== set) {
      onChange(time);
    }
  }
  return (
    <TextInput
      type="datetime-local"
      step={1}
      size="xs"
      className={filterClasses.field!}
      label={zone === "utc" ? "Start time (UTC)" : "Start time"}
      value={draft ?? set}
      onChange={(event) => setDraft(event.currentTarget.value)}
      onKeyDown={(event) => event.key === "Enter" && apply()}
      onBlur={apply}
    />
  );
}

function kindOf(from: string | undefined): string {
  if (from === undefined) {
    return "now";
  }
  if (from === "beginning") {
    return from;
  }
  return cursorOf(from) === undefined ? "time" : "cursor";
}

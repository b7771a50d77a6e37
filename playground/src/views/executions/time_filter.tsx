/** Conditions on a time: a period that ends now, all before a time, or two times in the chosen zone. */

import { Select, TextInput } from "@mantine/core";
import { useState } from "react";

import { useZone, type Zone } from "../../ui/clock";
import filterClasses from "../../ui/filter_bar.module.css";

const ANY = "any";
const BEFORE = "before";
const BETWEEN = "between";
const HOUR_MS = 3_600_000;
const PERIODS = [
  { value: ANY, label: "At any time" },
  { value: "5m", label: "Last 5 minutes" },
  { value: "1h", label: "Last hour" },
  { value: "1d", label: "Last day" },
  { value: "7d", label: "Last 7 days" },
  { value: BEFORE, label: "Before a time" },
  { value: BETWEEN, label: "Between two times" },
];

interface Props {
  label: string;
  since: string | undefined;
  until: string | undefined;
  onChange: (change: { since?: string | undefined; until?: string | undefined }) => void;
}

export function TimeFilter({ label, since, until, onChange }: Props) {
  const period = PERIODS.some(({ value }) => value === since) ? since! : ANY;
  const between = since !== undefined && (until !== undefined || period === ANY);
  const before = since === undefined && until !== undefined;
  function choose(value: string | null) {
    if (value === BETWEEN) {
      onChange({ since: new Date(Date.now() - HOUR_MS).toISOString(), until: new Date().toISOString() });
    } else if (value === BEFORE) {
      onChange({ since: undefined, until: until ?? new Date().toISOString() });
    } else {
      onChange({ since: value === null || value === ANY ? undefined : value, until: undefined });
    }
  }
  return (
    <>
      <Select
        label={label}
        size="xs"
        className={filterClasses.field!}
        data={PERIODS}
        value={between ? BETWEEN : before ? BEFORE : period}
        onChange={choose}
        allowDeselect={false}
      />
      {between && <TimeInput label={`${label} from`} value={since} onChange={(time) => onChange({ since: time })} />}
      {(between || before) && <TimeInput label={`${label} until`} value={until} onChange={(time) => onChange({ until: time })} />}
    </>
  );
}

interface InputProps {
  label: string;
  value: string | undefined;
  onChange: (time: string | undefined) => void;
}

function TimeInput({ label, value, onChange }: InputProps) {
  const zone = useZone();
  const chosen = toInput(value, zone);
  // The address follows a moment later. Until then, the field keeps what was entered.
  const [entered, setEntered] = useState({ chosen, text: chosen });
  if (entered.chosen !== chosen) {
    setEntered({ chosen, text: chosen });
  }
  return (
    <TextInput
      type="datetime-local"
      step={1}
      label={zone === "utc" ? `${label} (UTC)` : label}
      size="xs"
      className={filterClasses.field!}
      value={entered.text}
      onChange={(event) => {
        const text = event.currentTarget.value;
        setEntered({ chosen, text });
        onChange(fromInput(text, zone));
      }}
    />
  );
}

function toInput(value: string | undefined, zone: Zone): string {
  const at = Date.parse(value ?? "");
  if (Number.isNaN(at)) {
    return "";
  }
  const offset = zone === "utc" ? 0 : new Date(at).getTimezoneOffset() * 60_000;
  return new Date(at - offset).toISOString().slice(0, 19);
}

function fromInput(text: string, zone: Zone): string | undefined {
  const at = Date.parse(zone === "utc" ? `${text}Z` : text);
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

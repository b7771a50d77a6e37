/** Conditions of a filter with choices. */

import { MultiSelect, Select } from "@mantine/core";

import { flagOf, listOf } from "./filter_bar";
import classes from "./filter_bar.module.css";

interface Props {
  label: string;
  /** Choices in the URL; undefined if the condition is not set. */
  value: string | undefined;
  choices: readonly { value: string; label: string }[];
  onApply: (value: string | undefined) => void;
}

/** A condition with several choices, such as statuses. The URL has them with commas. */
export function FilterChoices({ label, value, choices, onApply }: Props) {
  const chosen = chosenOf(value, choices);
  return (
    <MultiSelect
      label={label}
      size="xs"
      className={classes.field!}
      data={[...choices]}
      value={chosen}
      placeholder={chosen.length === 0 ? "All" : ""}
      onChange={(values) => onApply(values.join(",") || undefined)}
      clearable
    />
  );
}

/** Returns the choices in the URL that exist. */
export function chosenOf<Value extends string>(text: string | undefined, choices: readonly { value: Value }[]): Value[] {
  const named = new Set(listOf(text));
  return choices.map((choice) => choice.value).filter((value) => named.has(value));
}

const ANY = "any";

interface FlagProps {
  label: string;
  /** `1` or `0` in the URL; undefined if the condition is not set. */
  value: string | undefined;
  /** Name of the choice `1`. */
  yes: string;
  /** Name of the choice `0`. */
  no: string;
  onApply: (value: string | undefined) => void;
}

/** A condition that items meet or not. */
export function FilterFlag({ label, value, yes, no, onApply }: FlagProps) {
  return (
    <Select
      label={label}
      size="xs"
      className={classes.field!}
      data={[
        { value: ANY, label: "Any" },
        { value: "1", label: yes },
        { value: "0", label: no },
      ]}
      value={flagOf(value) === undefined ? ANY : value!}
      onChange={(chosen) => onApply(chosen === null || chosen === ANY ? undefined : chosen)}
      allowDeselect={false}
    />
  );
}

/** A condition of a filter with several choices, such as statuses. The URL has them with commas. */

import { MultiSelect } from "@mantine/core";

import { listOf } from "./filter_bar";
import classes from "./filter_bar.module.css";

interface Props {
  label: string;
  /** Choices in the URL; undefined if the condition is not set. */
  value: string | undefined;
  choices: readonly { value: string; label: string }[];
  onApply: (value: string | undefined) => void;
}

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

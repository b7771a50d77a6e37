/** Input of one field of the workload, by the type of its default. */

import { Switch, Textarea, TextInput } from "@mantine/core";

import { isScalar, textOf, type WorkloadField } from "./workload_values";

const KINDS: Record<WorkloadField["type"], string> = {
  STRING: "Text",
  INTEGER: "Whole number",
  NUMBER: "Number",
  BOOLEAN: "Yes or no",
  LIST: "List, as JSON",
  OBJECT: "Map, as JSON",
  UNKNOWN: "Any value, as JSON",
};

interface Props {
  field: WorkloadField;
  /** Text of the user; undefined: the default. */
  text: string | undefined;
  error: string | undefined;
  onChange: (text: string) => void;
}

export function WorkloadInput({ field, text, error, onChange }: Props) {
  const value = text ?? (field.required ? "" : textOf(field, field.default));
  const changed = text !== undefined && text !== textOf(field, field.default);
  const common = {
    label: field.name,
    description: `${KINDS[field.type]}${changed && !field.required ? ", changed" : ""}`,
    error,
    withAsterisk: field.required,
  };
  if (field.type === "BOOLEAN") {
    const choose = (checked: boolean) => onChange(String(checked));
    return <Switch {...common} checked={value === "true"} onChange={(event) => choose(event.currentTarget.checked)} />;
  }
  const changeTo = (event: { currentTarget: { value: string } }) => onChange(event.currentTarget.value);
  const input = { ...common, value, onChange: changeTo, spellCheck: false };
  return isScalar(field) && !value.includes("\n") ? (
    <TextInput {...input} inputMode={field.type === "STRING" ? "text" : "decimal"} />
  ) : (
    <Textarea
      {...input}
      autosize
      minRows={3}
      maxRows={18}
      styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
    />
  );
}

/** The fields of the workload, and a map of additional fields. */

import { Stack, Text, Textarea } from "@mantine/core";

import { Panel } from "../../ui/panel";
import { WorkloadInput } from "./workload_input";
import type { Texts, WorkloadField } from "./workload_values";

interface Props {
  fields: readonly WorkloadField[];
  texts: Texts;
  additional: string;
  /** Errors by the name of the field. */
  errors: ReadonlyMap<string, string>;
  additionalError: string | null | undefined;
  onChange: (texts: Texts, additional: string) => void;
}

export function WorkloadPanel({ fields, texts, additional, errors, additionalError, onChange }: Props) {
  return (
    <Panel title="Workload">
      <Stack gap="sm">
        {fields.length === 0 && (
          <Text size="sm" c="dimmed">
            The entry has no default workload. Write fields below if it needs some.
          </Text>
        )}
        {fields.map((field) => (
          <WorkloadInput
            key={field.name}
            field={field}
            text={texts[field.name]}
            error={texts[field.name] === undefined ? undefined : errors.get(field.name)}
            onChange={(text) => onChange({ ...texts, [field.name]: text }, additional)}
          />
        ))}
        <Textarea
          label="Additional fields"
          description="Fields that the entry has no default for: a map, as JSON."
          placeholder="{}"
          autosize
          minRows={2}
          maxRows={16}
          spellCheck={false}
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)" } }}
          value={additional}
          error={additionalError}
          onChange={(event) => onChange(texts, event.currentTarget.value)}
        />
      </Stack>
    </Panel>
  );
}

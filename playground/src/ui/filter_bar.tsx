/**
 * Fields of a filter; on a narrow screen, a button shows them. Each field changes the URL when the user leaves it or presses Enter, so a filter has a
 * deep link.
 */

import { Button, Group, TextInput } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconFilter, IconX } from "@tabler/icons-react";
import { useState, type FormEvent, type ReactNode } from "react";

import classes from "./filter_bar.module.css";

interface BarProps {
  /** Whether the filter has a condition, so that it can be cleared. */
  active: boolean;
  onClear: () => void;
  children: ReactNode;
}

export function FilterBar({ active, onClear, children }: BarProps) {
  const [opened, { toggle }] = useDisclosure(false);
  return (
    <Group component="search" gap="xs" align="flex-end" className={classes.bar!} data-opened={opened}>
      <Button
        hiddenFrom="sm"
        variant="default"
        size="xs"
        leftSection={<IconFilter size={14} />}
        aria-expanded={opened}
        onClick={toggle}
      >
        {active ? "Filters (set)" : "Filters"}
      </Button>
      <div className={classes.fields}>{children}</div>
      {active && (
        <Button variant="subtle" size="xs" leftSection={<IconX size={14} />} onClick={onClear}>
          Clear filters
        </Button>
      )}
    </Group>
  );
}

interface FieldProps {
  label: string;
  /** Value in the URL; undefined if the condition is not set. */
  value: string | undefined;
  placeholder?: string;
  /** Explanation that is shown at the field when the pointer is on it. */
  hint?: string;
  onApply: (value: string | undefined) => void;
}

/** A text condition. A list is written with commas. */
export function FilterText({ label, value = "", placeholder, hint, onApply }: FieldProps) {
  const [draft, setDraft] = useState(value);
  const [applied, setApplied] = useState(value);
  // The URL can change without this field: by a link, by the history, or by Clear.
  if (value !== applied) {
    setApplied(value);
    setDraft(value);
  }
  function apply(event?: FormEvent) {
    event?.preventDefault();
    const text = draft.trim();
    if (text !== value) {
      onApply(text || undefined);
    }
  }
  return (
    <form onSubmit={apply} className={classes.field}>
      <TextInput
        label={label}
        size="xs"
        value={draft}
        placeholder={placeholder ?? ""}
        title={hint}
        onChange={(event) => setDraft(event.currentTarget.value)}
        onBlur={() => apply()}
        spellCheck={false}
        autoComplete="off"
      />
    </form>
  );
}

/** Returns the values of a list that is written with commas. */
export function listOf(text: string | undefined): string[] {
  return text?.split(/[\s,]+/).filter(Boolean) ?? [];
}

/** Returns the value of a condition that is met (`1`) or not (`0`); undefined if the text is neither. */
export function flagOf(text: string | undefined): boolean | undefined {
  return text === "1" || text === "0" ? text === "1" : undefined;
}

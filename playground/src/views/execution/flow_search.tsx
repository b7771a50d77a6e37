/** Field that finds steps of the flow by name. Enter goes to the next match, Shift+Enter to the previous one. */

import { Group, Text, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useState, type KeyboardEvent } from "react";

import { matchesOf, nextMatch } from "./flow_matches";

export interface Found {
  matches: ReadonlySet<string>;
  /** Match that is shown. */
  current: string | undefined;
}

export const NOTHING_FOUND: Found = { matches: new Set(), current: undefined };

interface Props {
  /** Names of all steps. */
  names: readonly string[];
  onFound: (found: Found) => void;
}

export function FlowSearch({ names, onFound }: Props) {
  const [text, setText] = useState("");
  const [index, setIndex] = useState(0);
  const matches = matchesOf(names, text);
  const shown = Math.min(index, Math.max(0, matches.length - 1));
  const find = (changed: string, next: number) => {
    const found = matchesOf(names, changed);
    setText(changed);
    setIndex(next);
    onFound({ matches: new Set(found), current: found[next] });
  };
  const go = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      event.preventDefault();
      find(text, nextMatch(shown, event.shiftKey ? -1 : 1, matches.length));
    }
  };
  return (
    <Group component="search" gap="xs" mb="xs">
      <TextInput
        type="search"
        size="xs"
        aria-label="Find a step"
        placeholder="Find a step"
        leftSection={<IconSearch size={14} />}
        value={text}
        onChange={(event) => find(event.currentTarget.value, 0)}
        onKeyDown={go}
        spellCheck={false}
        autoComplete="off"
      />
      <Text size="xs" c="dimmed" role="status" aria-label="Found steps">
        {inWords(text, matches, shown)}
      </Text>
    </Group>
  );
}

function inWords(text: string, matches: readonly string[], index: number): string {
  if (text.trim() === "") {
    return "";
  }
  return matches.length === 0 ? "No step" : `${index + 1} of ${matches.length}: ${matches[index]}`;
}

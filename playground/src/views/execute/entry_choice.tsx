/** Choice of a catalog path. The server searches paths and names. */

import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState } from "react";

import { useApiQuery } from "../../api/hooks";
import { ExecutableEntriesDocument } from "./operations.generated";

const TYPING_MS = 200;

interface Props {
  path: string | undefined;
  onChange: (path: string | undefined) => void;
}

export function EntryChoice({ path, onChange }: Props) {
  const [text, setText] = useState(path ?? "");
  const [settled] = useDebouncedValue(text.trim(), TYPING_MS);
  const searched = settled !== "" && settled !== path;
  const filter = { kinds: ["PLAYBOOK" as const, "AGENT" as const], ...(searched && { text: settled }) };
  const { data, error } = useApiQuery(ExecutableEntriesDocument, { filter });
  const entries = data?.data.catalogEntries?.nodes ?? [];
  const paths = [...new Set([...(path === undefined ? [] : [path]), ...entries.map((entry) => entry.path)])];
  const described = new Map(entries.map((entry) => [entry.path, entry.description]));
  return (
    <Select
      label="Catalog path"
      placeholder="Search paths and names"
      searchable
      clearable
      data={paths}
      value={path ?? null}
      onChange={(chosen) => onChange(chosen ?? undefined)}
      searchValue={text}
      onSearchChange={setText}
      // The server has filtered the list.
      filter={({ options }) => options}
      renderOption={({ option }) => <Option path={option.value} description={described.get(option.value) ?? null} />}
      nothingFoundMessage="No entry has this text. Register the playbook in the catalog first."
      error={error?.message}
      maxDropdownHeight={320}
    />
  );
}

function Option({ path, description }: { path: string; description: string | null }) {
  return (
    <span>
      {path}
      {description !== null && <small style={{ display: "block", color: "var(--mantine-color-dimmed)" }}>{description}</small>}
    </span>
  );
}

/** The content of a version, or its difference to another version of the path. */

import { Group, SegmentedControl, Select } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { useApiQuery } from "../../api/hooks";
import { CodeDifference } from "../../ui/code/code_difference";
import { CodeView } from "../../ui/code/code_view";
import { CopyButton } from "../../ui/copy_button";
import { Panel } from "../../ui/panel";
import { Empty, Failure, Loading } from "../../ui/states";
import { keyOf, type Entry } from "./entry";
import { CatalogContentDocument } from "./operations.generated";
import type { EntrySearch } from "./search";

const route = getRouteApi("/catalog/$");

export function EntryContent({ entry }: { entry: Entry }) {
  const { show } = route.useSearch();
  const navigate = route.useNavigate();
  const versions = entry.versions?.nodes.map((version) => String(version.version)) ?? [];
  const compares = show === "difference" && versions.length > 1;
  const change = (search: EntrySearch) =>
    void navigate({ search: (before) => ({ ...before, ...search }), replace: true, resetScroll: false });
  return (
    <Panel
      title={compares ? "Difference" : "Content"}
      actions={
        <>
          {!compares && entry.content !== null && <CopyButton value={entry.content} name="content" />}
          {versions.length > 1 && (
            <SegmentedControl
              size="xs"
              aria-label="Content or difference"
              value={compares ? "difference" : "content"}
              onChange={(value) => change({ show: value === "difference" ? value : undefined, with: undefined })}
              data={[
                { value: "content", label: "Content" },
                { value: "difference", label: "Difference" },
              ]}
            />
          )}
        </>
      }
    >
      {compares ? (
        <Difference entry={entry} versions={versions} change={change} />
      ) : entry.content === null ? (
        <Empty title="This version has no content">Another program registered it without a document.</Empty>
      ) : (
        <CodeView text={entry.content} label={`Content of version ${entry.version}`} />
      )}
    </Panel>
  );
}

interface DifferenceProps {
  entry: Entry;
  versions: readonly string[];
  change: (search: EntrySearch) => void;
}

function Difference({ entry, versions, change }: DifferenceProps) {
  const search = route.useSearch();
  const newer = String(entry.version);
  const older = search.with ?? versions.find((version) => Number(version) < entry.version) ?? versions.find((version) => version !== newer);
  const { data, error, isPlaceholderData, refetch } = useApiQuery(CatalogContentDocument, { by: keyOf(entry.path, older) });
  const other = data?.data.catalogEntry;
  return (
    <>
      <Group gap="xs" mb="xs" align="flex-end">
        <VersionChoice label="From version" value={older} versions={versions} onChange={(version) => change({ with: version })} />
        <VersionChoice label="To version" value={newer} versions={versions} onChange={(version) => change({ version, with: older })} />
      </Group>
      {error && <Failure error={error} retry={refetch} />}
      {!error && (!data || isPlaceholderData) && <Loading lines={8} />}
      {data && !isPlaceholderData && !other && <Empty title={`The path has no version ${older}`}>Choose another version.</Empty>}
      {other && !isPlaceholderData && (
        <CodeDifference
          older={other.content ?? ""}
          newer={entry.content ?? ""}
          label={`Difference from version ${other.version} to version ${entry.version}`}
        />
      )}
    </>
  );
}

interface ChoiceProps {
  label: string;
  value: string | undefined;
  versions: readonly string[];
  onChange: (version: string) => void;
}

function VersionChoice({ label, value, versions, onChange }: ChoiceProps) {
  return (
    <Select
      label={label}
      size="xs"
      w={140}
      data={[...versions]}
      value={value ?? null}
      onChange={(version) => version !== null && onChange(version)}
      allowDeselect={false}
    />
  );
}

/** Choice of the version that is run: the newest one at the time of the request, or a fixed one. */

import { Select } from "@mantine/core";

import { useApiQuery } from "../../api/hooks";
import type { CatalogEntryKey } from "../../api/schema.generated";
import { useZone } from "../../ui/clock";
import { formatTime } from "../../ui/format";
import { WorkloadOfEntryDocument } from "./operations.generated";

const NEWEST = "newest";

interface Props {
  path: string;
  /** Chosen version; undefined: the newest. */
  version: string | undefined;
  onChange: (version: string | undefined) => void;
}

export function VersionChoice({ path, version, onChange }: Props) {
  const zone = useZone();
  const { data, error, isPlaceholderData } = useApiQuery(WorkloadOfEntryDocument, { by: { path } });
  const list = isPlaceholderData ? null : data?.data.catalogEntry?.versions;
  const versions = (list?.nodes ?? []).map(({ version: number, createdAt }) => ({
    value: String(number),
    label: `Version ${number}, registered ${formatTime(createdAt, zone)}`,
  }));
  const listed = version === undefined || versions.some(({ value }) => value === version);
  const newest = versions[0] ? `Newest (now version ${versions[0].value})` : "Newest";
  return (
    <Select
      label="Version"
      description={list?.pageInfo.hasNextPage ? "The newest 100 versions. The catalog has all of them." : null}
      data={[{ value: NEWEST, label: newest }, ...(listed ? [] : [{ value: version, label: `Version ${version}` }]), ...versions]}
      value={version ?? NEWEST}
      onChange={(chosen) => onChange(chosen === null || chosen === NEWEST ? undefined : chosen)}
      allowDeselect={false}
      error={error?.message}
      maxDropdownHeight={320}
    />
  );
}

/** Returns the key of a version; of the newest one if the version is undefined or not a number. */
export function entryKey(path: string, version: string | undefined): CatalogEntryKey {
  return version !== undefined && /^\d{1,9}$/.test(version) ? { pathVersion: { path, version: Number(version) } } : { path };
}

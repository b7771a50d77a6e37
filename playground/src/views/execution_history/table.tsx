/** The numbers of the chart as a table, newest first. Each number leads to its executions. */

import { Button } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";

import { useZone, type Zone } from "../../ui/clock";
import { DataTable, type Column } from "../../ui/data_table";
import { formatNumber } from "../../ui/format";
import { TextLink } from "../../ui/text_link";
import { Duration } from "../../ui/time";
import { executionsOf, isEmpty, nameOf, PARTS, type Bucket, type Part } from "./bars";

const PERCENTILES = ["p50", "p95", "p99"] as const;

interface Props {
  label: string;
  buckets: readonly Bucket[];
  /** Path of the executions; undefined: all. */
  path: string | undefined;
}

export function HistoryTable({ label, buckets, path }: Props) {
  const zone = useZone();
  const [opened, { toggle }] = useDisclosure(false);
  const rows = buckets.filter((bucket) => !isEmpty(bucket)).reverse();
  return (
    <>
      <Button variant="subtle" size="compact-xs" mt={4} aria-expanded={opened} onClick={toggle}>
        As a table
      </Button>
      {opened && (
        <DataTable
          label={`${label} as a table`}
          columns={columnsOf(path, zone)}
          rows={rows}
          rowKey={(bucket) => bucket.from}
        />
      )}
    </>
  );
}

function columnsOf(path: string | undefined, zone: Zone): readonly Column<Bucket>[] {
  return [
    { title: "From", cell: (bucket) => nameOf(bucket, zone) },
    ...PARTS.map((part): Column<Bucket> => ({
      title: part.charAt(0).toUpperCase() + part.slice(1),
      align: "right",
      cell: (bucket) => <Count bucket={bucket} part={part} path={path} zone={zone} />,
    })),
    ...PERCENTILES.map((percentile): Column<Bucket> => ({
      title: `Duration ${percentile}`,
      align: "right",
      cell: ({ durationSeconds }) => <Duration seconds={durationSeconds?.[percentile] ?? null} />,
    })),
    ...PERCENTILES.map((percentile): Column<Bucket> => ({
      title: `Wait ${percentile}`,
      align: "right",
      cell: ({ waitSeconds }) => <Duration seconds={waitSeconds?.[percentile] ?? null} />,
    })),
  ];
}

interface CountProps {
  bucket: Bucket;
  part: Part;
  path: string | undefined;
  zone: Zone;
}

function Count({ bucket, part, path, zone }: CountProps) {
  const count = formatNumber(bucket[part]);
  return bucket[part] === 0 ? (
    count
  ) : (
    <TextLink
      to="/executions"
      search={executionsOf(bucket, path, part)}
      size="sm"
      aria-label={`${count} ${part}, ${nameOf(bucket, zone)}`}
    >
      {count}
    </TextLink>
  );
}

/** Values that differ between the documents of two runs. */

import { Text } from "@mantine/core";

import { DataTable, type Column } from "../../ui/data_table";
import { Panel } from "../../ui/panel";
import { differencesOf, type Difference } from "./json_difference";
import classes from "./compare.module.css";

const MAX_ROWS = 200;
const COLUMNS: readonly Column<Difference>[] = [
  { title: "Value", cell: ({ place }) => <code className={classes.place}>{place}</code> },
  { title: "This run", cell: ({ left }) => <Value value={left} /> },
  { title: "Other run", cell: ({ right }) => <Value value={right} /> },
];

interface Props {
  title: string;
  left: unknown;
  right: unknown;
}

export function CompareDocuments({ title, left, right }: Props) {
  const differences = differencesOf(left, right);
  return (
    <Panel title={title}>
      <DataTable
        label={`Differences: ${title}`}
        columns={COLUMNS}
        rows={differences.slice(0, MAX_ROWS)}
        rowKey={({ place }) => place}
        empty={
          <Text size="sm" c="dimmed">
            {left === null ? "Both runs have none." : "Both runs have the same."}
          </Text>
        }
      />
      {differences.length > MAX_ROWS && (
        <Text size="xs" c="dimmed">
          The first {MAX_ROWS} of {differences.length} differences are listed.
        </Text>
      )}
    </Panel>
  );
}

function Value({ value }: { value: unknown }) {
  return value === undefined ? (
    <span className={classes.missing}>Missing</span>
  ) : (
    <code className={classes.value}>{JSON.stringify(value)}</code>
  );
}

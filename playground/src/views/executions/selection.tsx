/** Rows of the list that the user selects, by a box in each row and one for all loaded rows, and the actions on them. */

import { Checkbox, Group, Text } from "@mantine/core";
import { useState } from "react";

import type { Column } from "../../ui/data_table";
import { formatNumber } from "../../ui/format";
import { CancelMany } from "./cancel_many";
import type { ExecutionRowFragment } from "./operations.generated";
import { RerunMany } from "./rerun_many";

type Row = ExecutionRowFragment;

export interface Selection {
  /** Ids of the selected rows. A row that leaves the list is not selected any more. */
  ids: readonly string[];
  select: (ids: readonly string[], selected: boolean) => void;
}

const NONE: ReadonlySet<string> = new Set();

/** Returns the selection of a list. It is empty again when the scope changes, such as the filter. */
export function useSelection(rows: readonly Row[], scope: object): Selection {
  const [chosen, setChosen] = useState({ scope, ids: NONE });
  const selected = chosen.scope === scope ? chosen.ids : NONE;
  return {
    ids: rows.map(({ id }) => id).filter((id) => selected.has(id)),
    select: (ids, isSelected) => {
      const changed = new Set(selected);
      ids.forEach((id) => (isSelected ? changed.add(id) : changed.delete(id)));
      setChosen({ scope, ids: changed });
    },
  };
}

/** Returns columns with the boxes in the first one, which stays when a wide table is scrolled. */
export function withBoxes(columns: readonly Column<Row>[], { ids, select }: Selection): readonly Column<Row>[] {
  const selected = new Set(ids);
  const boxed = ({ cell, ...column }: Column<Row>): Column<Row> => ({
    ...column,
    cell: (row) => (
      <Group gap="sm" wrap="nowrap">
        <Checkbox
          size="xs"
          aria-label={`Select ${row.path ?? "Unknown path"} ${row.id}`}
          checked={selected.has(row.id)}
          onChange={(event) => select([row.id], event.currentTarget.checked)}
        />
        <div>{cell(row)}</div>
      </Group>
    ),
  });
  return columns.map((column, index) => (index === 0 ? boxed(column) : column));
}

/**
 * The box for all loaded rows, the number of the selected ones, and their actions. While a list is empty, the bar is hidden
 * but keeps the dialog with the result of an action.
 */
export function SelectionBar({ rows, selection: { ids, select } }: { rows: readonly Row[]; selection: Selection }) {
  const target = { by: "selection", ids } as const;
  const isAll = ids.length > 0 && ids.length === rows.length;
  return (
    <Group gap="sm" mb="xs" {...(rows.length === 0 && { display: "none" })}>
      <Checkbox
        size="xs"
        label={`Select all ${formatNumber(rows.length)} shown`}
        checked={isAll}
        indeterminate={ids.length > 0 && !isAll}
        onChange={() => select(rows.map(({ id }) => id), !isAll)}
      />
      <Text size="xs" c="dimmed" role="status" aria-label="Selection">
        {formatNumber(ids.length)} selected
      </Text>
      <RerunMany target={target} />
      <CancelMany target={target} />
    </Group>
  );
}

/**
 * A table of a list that is read in pages. A wide table scrolls below its first column. On a narrow screen, each row becomes a
 * card with the first value as its heading and the titles above the other values. Of a long list, only the rows near the
 * window are drawn.
 */

import { Table } from "@mantine/core";
import type { ReactNode } from "react";

import { AsOf } from "./as_of";
import classes from "./data_table.module.css";
import { MoreRows, type Pages } from "./more_rows";
import { useWindowRows } from "./window_rows";

export type { Pages };

export interface Column<Row> {
  /** Title of the column, unique in the table. */
  title: string;
  cell: (row: Row) => ReactNode;
  align?: "left" | "right";
}

interface Props<Row> {
  /** Description of the table for screen readers. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string | number;
  /** Shown instead of the table if it has no rows. */
  empty?: ReactNode;
  /** Pages of the list, for the button that loads more. */
  pages?: Pages;
  /** Whether the next page is also loaded when the end of the list comes near the window (default false). */
  endless?: boolean;
  /** Whether a live subscription reports the changes of the list (default false). */
  live?: boolean;
}

export function DataTable<Row>({ label, columns, rows, rowKey, empty, pages, endless = false, live = false }: Props<Row>) {
  const { body, isLong, drawn, before, after, measure } = useWindowRows(rows, rowKey);
  const asOf = pages && <AsOf readAt={pages.dataUpdatedAt ?? 0} failed={pages.isError ?? false} live={live} />;
  if (rows.length === 0 && empty) {
    return (
      <>
        {asOf}
        {empty}
      </>
    );
  }
  return (
    <>
      {asOf}
      {/* No landmark: the panel around the table is one, often with the same name. */}
      <div
        className={classes.frame}
        role="group"
        aria-label={label}
        tabIndex={0}
        {...(isLong && { "data-long": true, style: { paddingTop: before, paddingBottom: after } })}
      >
        <Table
          aria-label={label}
          className={classes.table!}
          highlightOnHover
          {...(isLong && { "aria-rowcount": rows.length + 1 })}
        >
          <Table.Thead>
            <Table.Tr {...(isLong && { "aria-rowindex": 1 })}>
              {columns.map((column) => (
                <Table.Th key={column.title} ta={column.align ?? "left"} scope="col">
                  {column.title}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody ref={body}>
            {drawn.map(({ row, index }) => (
              <Table.Tr
                key={rowKey(row)}
                {...(isLong && { ref: measure, "data-index": index, "aria-rowindex": index + 2 })}
              >
                {columns.map((column) => (
                  <Table.Td key={column.title} ta={column.align ?? "left"} data-title={column.title}>
                    {column.cell(row)}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
      {pages && <MoreRows shown={rows.length} pages={pages} endless={endless} />}
    </>
  );
}

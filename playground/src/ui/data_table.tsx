/**
 * A table of a list that is read in pages. On a narrow screen, each row becomes a card with
 * the first value as its heading and the titles above the other values.
 */

import { Button, Group, Table, Text } from "@mantine/core";
import type { ReactNode } from "react";

import classes from "./data_table.module.css";

export interface Column<Row> {
  /** Title of the column, unique in the table. */
  title: string;
  cell: (row: Row) => ReactNode;
  align?: "left" | "right";
}

export interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
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
}

export function DataTable<Row>({ label, columns, rows, rowKey, empty, pages }: Props<Row>) {
  if (rows.length === 0 && empty) {
    return empty;
  }
  return (
    <>
      <div className={classes.frame} role="region" aria-label={label} tabIndex={0}>
        <Table aria-label={label} className={classes.table!} highlightOnHover>
          <Table.Thead>
            <Table.Tr>
              {columns.map((column) => (
                <Table.Th key={column.title} ta={column.align ?? "left"} scope="col">
                  {column.title}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map((row) => (
              <Table.Tr key={rowKey(row)}>
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
      {pages && <More shown={rows.length} pages={pages} />}
    </>
  );
}

function More({ shown, pages }: { shown: number; pages: Pages }) {
  return (
    <Group justify="space-between" mt="xs">
      <Text size="xs" c="dimmed" role="status">
        {shown} shown{pages.hasNextPage ? ", the list has more" : ""}
      </Text>
      {pages.hasNextPage && (
        <Button size="xs" variant="default" loading={pages.isFetchingNextPage} onClick={() => pages.fetchNextPage()}>
          Load more
        </Button>
      )}
    </Group>
  );
}

/**
 * The rows of a long table that are near the window. Only these are drawn, between spaces with the height of the others. The
 * rows that the user reads keep their place while rows are added or removed above them.
 */

import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useLayoutEffect, useRef, useState } from "react";

/** Number of rows up to which all are drawn, so that the browser finds each of their texts. */
const MAX_DRAWN = 100;
/** Height in pixels of a row that was not drawn yet. */
const ROW_HEIGHT = 38;
/** Number of rows that are drawn above and below the window. */
const OVERSCAN = 10;

type Key = string | number;

export function useWindowRows<Row>(rows: readonly Row[], rowKey: (row: Row) => Key) {
  const body = useRef<HTMLTableSectionElement>(null);
  const read = useRef<{ rows: readonly Row[]; key: Key; index: number; start: number } | null>(null);
  const [margin, setMargin] = useState(0);
  const isLong = rows.length > MAX_DRAWN;
  const getItemKey = useCallback((index: number) => rowKey(rows[index]!), [rows, rowKey]);
  const list = useWindowVirtualizer<HTMLTableRowElement>({
    count: rows.length,
    enabled: isLong,
    estimateSize: () => ROW_HEIGHT,
    getItemKey,
    overscan: OVERSCAN,
    scrollMargin: margin,
    initialRect: { width: window.innerWidth, height: window.innerHeight },
  });
  const items = list.getVirtualItems();
  const before = isLong ? (items[0]?.start ?? margin) - margin : 0;
  const after = isLong ? Math.max(0, list.getTotalSize() - (items.at(-1)?.end ?? margin) + margin) : 0;
  useLayoutEffect(() => {
    if (!isLong || !body.current) {
      read.current = null;
      return;
    }
    setMargin(Math.round(body.current.getBoundingClientRect().top + window.scrollY - before));
    const last = read.current;
    if (last && last.rows !== rows && window.scrollY > margin) {
      const index = rows.findIndex((row) => rowKey(row) === last.key);
      const item = index >= 0 && index !== last.index ? list.measurementsCache[index] : undefined;
      window.scrollBy(0, item ? item.start - margin - last.start : 0);
    }
    const first = list.getVirtualItemForOffset(window.scrollY);
    read.current = first ? { rows, key: first.key as Key, index: first.index, start: first.start - margin } : null;
  });
  return {
    body,
    isLong,
    /** Rows to draw, with their places in the list. */
    drawn: isLong ? items.map(({ index }) => ({ row: rows[index]!, index })) : rows.map((row, index) => ({ row, index })),
    /** Height in pixels of the rows above those that are drawn. */
    before,
    /** Height in pixels of the rows below those that are drawn. */
    after,
    /** Measures the height of a row that is drawn. */
    measure: list.measureElement,
  };
}

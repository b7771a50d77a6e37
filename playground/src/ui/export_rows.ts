/** Reads the rows of a list, those of the server page by page, and writes them into a file that the browser saves. */

import { send, type TypedDocument } from "../api/client";
import { ApiError, type GraphqlError } from "../api/errors";
import type { Connection } from "../api/hooks";
import { csvLine, jsonLine, valueOf } from "./csv";

/** Maximum number of rows that an export reads, unless its list has another limit. */
const MAX_ROWS = 10_000;
/** Number of rows of one request: the server's maximum. */
const PAGE = 100;

export type Format = "csv" | "jsonl";

/** Variables of a list that is read in pages. */
export interface PageVariables {
  first?: number | null | undefined;
  after?: string | null | undefined;
}

interface NamedRows<Row> {
  /** Name of the rows, such as `executions`. */
  name: string;
  /** Columns of the CSV: names of fields, such as `parent.execution.id`. */
  columns: readonly string[];
  /** Whether the view shows a row, if it does not show all rows of the filter. */
  shows?: ((row: Row) => boolean) | undefined;
  /** Maximum number of rows that are read (default 10,000). */
  limit?: number;
}

/** A list of the server. */
interface ServerList<Data, Variables extends PageVariables, Row> extends NamedRows<Row> {
  document: TypedDocument<Data, Variables>;
  variables: Omit<Variables, keyof PageVariables>;
  /** Returns the list of a reply; null if the server could not return it. */
  select: (data: Data) => Connection<Row> | null;
}

/** Rows that only the page has. */
interface LoadedRows<Row> extends NamedRows<Row> {
  /** Returns the rows as of now. */
  loaded: () => readonly Row[];
}

export type ExportedList<Data, Variables extends PageVariables, Row> = ServerList<Data, Variables, Row> | LoadedRows<Row>;

export interface Exported {
  fileName: string;
  /** Number of rows in the file. */
  rows: number;
  /** Whether the list has more rows than an export reads. */
  more: boolean;
  unavailableShards: readonly number[];
  /** One error for each message of the pages. */
  errors: readonly GraphqlError[];
}

const TYPES: Record<Format, string> = { csv: "text/csv;charset=utf-8", jsonl: "application/x-ndjson" };

/** Returns the maximum number of rows that an export of a list reads. */
export function limitOf({ limit = MAX_ROWS }: { limit?: number }): number {
  return limit;
}

/** Saves the rows of a list. Nothing is saved if a page can't be read or the signal is aborted. */
export async function exportRows<Data, Variables extends PageVariables, Row>(
  list: ExportedList<Data, Variables, Row>,
  format: Format,
  report: (rows: number) => void,
  signal: AbortSignal,
): Promise<Exported> {
  const { name, columns, shows = () => true } = list;
  const lineOf = (row: Row) => (format === "csv" ? csvLine(columns.map((column) => valueOf(row, column))) : jsonLine(row));
  const limit = limitOf(list);
  // The browser may keep the parts of a large file outside of the memory.
  const parts = format === "csv" ? [new Blob([csvLine(columns)])] : [];
  const shards = new Set<number>();
  const errors = new Map<string, GraphqlError>();
  let [read, rows] = [0, 0];
  let after: string | null = null;
  do {
    const page: Page<Row> = "loaded" in list ? { ...WHOLE, nodes: list.loaded() } : await pageOf(list, after, signal);
    const shown = page.nodes.filter(shows);
    parts.push(new Blob(shown.map(lineOf)));
    page.unavailableShards.forEach((shard) => shards.add(shard));
    page.errors.forEach((error) => errors.set(error.message, error));
    read += page.nodes.length;
    rows += shown.length;
    report(read);
    after = page.pageInfo.hasNextPage ? page.pageInfo.endCursor : null;
  } while (after !== null && read < limit);
  signal.throwIfAborted();
  const fileName = `${name}-${new Date().toISOString().slice(0, 19).replaceAll(":", "-")}.${format}`;
  save(new Blob(parts, { type: TYPES[format] }), fileName);
  return { fileName, rows, more: after !== null, unavailableShards: [...shards], errors: [...errors.values()] };
}

interface Page<Row> extends Connection<Row> {
  errors: readonly GraphqlError[];
}

const WHOLE = { pageInfo: { hasNextPage: false, endCursor: null }, unavailableShards: [], errors: [] };

async function pageOf<Data, Variables extends PageVariables, Row>(
  { document, variables, select }: ServerList<Data, Variables, Row>,
  after: string | null,
  signal: AbortSignal,
): Promise<Page<Row>> {
  const page = { ...variables, first: PAGE, after } as unknown as Variables;
  const { data, errors } = await send(document, page, signal);
  const part = select(data);
  if (!part) {
    throw ApiError.of(errors);
  }
  return { ...part, errors };
}

/** Time in milliseconds in which a browser begins to save a file. */
const SAVED_MS = 60_000;

function save(file: Blob, fileName: string): void {
  const address = URL.createObjectURL(file);
  const link = Object.assign(document.createElement("a"), { href: address, download: fileName });
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(address), SAVED_MS);
}

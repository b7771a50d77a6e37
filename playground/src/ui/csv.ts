/** Rows as lines of a file: JSON, or CSV by RFC 4180. */

/** First characters of a text that a spreadsheet reads as a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/** Returns a row as JSON on a line of its own. */
export function jsonLine(row: unknown): string {
  return `${JSON.stringify(row)}\n`;
}

/** Returns values as a line of CSV. */
export function csvLine(values: readonly unknown[]): string {
  return `${values.map(cell).join(",")}\r\n`;
}

/** Returns the value of a field of a row. A field of an object is written as `parent.execution.id`. */
export function valueOf(row: unknown, field: string): unknown {
  const step = (value: unknown, name: string) => (value as Readonly<Record<string, unknown>> | null | undefined)?.[name];
  return field.split(".").reduce(step, row);
}

function cell(value: unknown): string {
  const text = textOf(value);
  // A spreadsheet shows a cell that begins with an apostrophe as text, without it.
  const harmless = typeof value === "string" && FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) {
    return "";
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

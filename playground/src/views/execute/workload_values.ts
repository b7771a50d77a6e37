/**
 * Values of the form and the workload that they make. The server overlays a request on the entry's workload key by key,
 * so only fields that differ from their default are sent.
 */

import { ExactNumber, isRounded, parseExact } from "../../api/exact_json";
import type { WorkloadOfEntryQuery } from "./operations.generated";

export type WorkloadField = NonNullable<WorkloadOfEntryQuery["catalogEntry"]>["workloadFields"][number];

/** Texts of the inputs by the name of the field. An absent text means the default. */
export type Texts = Readonly<Record<string, string>>;

export type Parsed = { value: unknown } | { error: string };

const NUMBER = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i;
const ROUNDED = "This browser would round a number of more than 15 digits. Update it, or write the number as a text.";

/** Returns whether a field has an input of its own type; the others are written as JSON. */
export function isScalar({ type }: WorkloadField): boolean {
  return type === "STRING" || type === "INTEGER" || type === "NUMBER" || type === "BOOLEAN";
}

/** Returns a value as the text of its input. A value of another type than the field's default is written as JSON. */
export function textOf(field: WorkloadField, value: unknown): string {
  if (field.type === "STRING" && typeof value === "string") {
    return value;
  }
  return value === undefined ? "" : JSON.stringify(value, null, isScalar(field) ? 0 : 2);
}

export function parse(field: WorkloadField, text: string): Parsed {
  switch (field.type) {
    case "STRING":
      return { value: text };
    case "BOOLEAN":
      return text === "true" || text === "false" ? { value: text === "true" } : { error: `Choose yes or no. The value was ${text}.` };
    case "INTEGER":
      return /^-?\d+$/.test(text.trim()) ? numberOf(text) : { error: "Write a whole number." };
    case "NUMBER":
      return numberOf(text);
    default:
      return parseJson(field, text);
  }
}

function numberOf(text: string): Parsed {
  // JSON has no zeros at the beginning of a number.
  const written = text.trim().replace(/^(-?)0+(?=\d)/, "$1");
  if (!NUMBER.test(written)) {
    return { error: "Write a number, such as 0.5." };
  }
  return isRounded(written) ? { error: ROUNDED } : { value: parseExact(written) };
}

function parseJson({ type }: WorkloadField, text: string): Parsed {
  try {
    const value = parseExact(text);
    if (isRounded(text)) {
      return { error: ROUNDED };
    }
    if (type === "LIST" && !Array.isArray(value)) {
      return { error: "Write a list, such as [1, 2]." };
    }
    return type === "OBJECT" && !isMap(value) ? { error: 'Write a map, such as {"key": 1}.' } : { value };
  } catch (fault) {
    return { error: `This is not JSON: ${(fault as Error).message}` };
  }
}

export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber);
}

/** Returns the map of the additional fields. */
export function parseAdditional(text: string): Parsed {
  if (text.trim() === "") {
    return { value: {} };
  }
  return parseJson({ name: "", type: "OBJECT", default: null, required: false }, text);
}

/** Maximum number of fields that a reason names. */
const NAMED = 5;

/** Returns why a request can't be sent, by the names of its fields without a valid value; undefined if there are none. */
export function refusalOf(names: readonly string[]): string | undefined {
  if (names.length < 2) {
    return names.length === 0 ? undefined : `The field ${names[0]} needs a valid value.`;
  }
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  return `These fields need valid values: ${names.slice(0, NAMED).join(", ")}${more}.`;
}

/** Returns the errors by field, and the workload of the request. */
export function workloadOf(fields: readonly WorkloadField[], texts: Texts, additional: string) {
  const errors = new Map<string, string>();
  const workload: Record<string, unknown> = {};
  for (const field of fields) {
    const text = texts[field.name];
    if (text === undefined) {
      if (field.required) {
        errors.set(field.name, "Give a value: the document has no default.");
      }
      continue;
    }
    const parsed = parse(field, text);
    if ("error" in parsed) {
      errors.set(field.name, parsed.error);
    } else if (field.required || JSON.stringify(parsed.value) !== JSON.stringify(field.default)) {
      workload[field.name] = parsed.value;
    }
  }
  const more = parseAdditional(additional);
  const additionalError = "error" in more ? more.error : null;
  return { errors, additionalError, workload: "value" in more ? { ...workload, ...(more.value as object) } : workload };
}

/** Returns the texts and the additional fields that repeat the workload of an execution. */
export function textsOf(fields: readonly WorkloadField[], workload: unknown): { texts: Texts; additional: string } {
  const given = isMap(workload) ? workload : {};
  const known = fields.filter(({ name }) => name in given);
  const names = new Set(fields.map(({ name }) => name));
  const others = Object.entries(given).filter(([name]) => !names.has(name));
  return {
    texts: Object.fromEntries(known.map((field) => [field.name, textOf(field, given[field.name])])),
    additional: others.length > 0 ? JSON.stringify(Object.fromEntries(others), null, 2) : "",
  };
}

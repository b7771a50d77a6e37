/** The server's check of a document, repeated after a pause in typing. Nothing is registered. */

import { useDebouncedValue } from "@mantine/hooks";
import { useMemo } from "react";

import type { ApiError } from "../../api/errors";
import { useApiQuery } from "../../api/hooks";
import type { UserError, ValidateCatalogEntryInput } from "../../api/schema.generated";
import type { Problem } from "../../ui/code/problem_place";
import { ValidateCatalogEntryDocument, type ValidateCatalogEntryQuery } from "./operations.generated";

const TYPING_MS = 400;

export type Draft = NonNullable<NonNullable<ValidateCatalogEntryQuery["validateCatalogEntry"]>["entry"]>;

export interface Check {
  state: "checking" | "valid" | "invalid" | "failed";
  /** Reason the document can't be registered yet. */
  explanation: string;
  entry: Draft | null;
  problems: readonly Problem[];
  error: ApiError | null;
  retry: () => unknown;
}

export function useCheck(input: ValidateCatalogEntryInput): Check {
  const text = JSON.stringify(input);
  const [settled] = useDebouncedValue(text, TYPING_MS);
  const variables = useMemo(() => ({ input: JSON.parse(settled) as ValidateCatalogEntryInput }), [settled]);
  const { data, error, isPlaceholderData, refetch } = useApiQuery(ValidateCatalogEntryDocument, variables);
  const checked = data?.data.validateCatalogEntry ?? null;
  const problems = useMemo(() => problemsOf(checked?.userErrors ?? []), [checked]);
  const base = { entry: checked?.entry ?? null, problems, error, retry: refetch };
  if (error) {
    return { ...base, state: "failed", explanation: "The server could not check the document." };
  }
  if (!checked || isPlaceholderData || settled !== text) {
    return { ...base, state: "checking", explanation: "The server checks the document." };
  }
  if (problems.length > 0) {
    return { ...base, state: "invalid", explanation: "Correct the document first. The messages below the editor say what is wrong." };
  }
  return { ...base, state: "valid", explanation: "" };
}

/** Returns the reasons of a refusal with the fields of the document that they name. */
export function problemsOf(errors: readonly Pick<UserError, "field" | "message">[]): Problem[] {
  return errors.map(({ field, message }) => ({ message, field: field?.[0] === "content" ? field.slice(1) : [] }));
}

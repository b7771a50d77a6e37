/** Texts in the documents of an event. */

/** Returns a text in a document, such as the reason in the context of an event; null if it has none. */
export function textOf(document: unknown, key: string): string | null {
  const value = typeof document === "object" && document !== null ? (document as Record<string, unknown>)[key] : undefined;
  return typeof value === "string" ? value : null;
}

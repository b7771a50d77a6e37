/** Search for steps of a flow by their names. */

/** Returns the names that contain a text in any case of letters, in the order of the flow; none without a text. */
export function matchesOf(names: readonly string[], text: string): string[] {
  const wanted = text.trim().toLowerCase();
  return wanted === "" ? [] : names.filter((name) => name.toLowerCase().includes(wanted));
}

/** Returns the index of the next match, or of the previous one (`by` is -1). After the last one, the first one follows. */
export function nextMatch(index: number, by: 1 | -1, count: number): number {
  return count === 0 ? 0 : (index + by + count) % count;
}

/**
 * The query part of an address, as flat texts. The router's own format reads digits as numbers, which would change the
 * ids of the API, because they have more digits than a number of JavaScript.
 */

export type Search = Record<string, string | undefined>;

export function parseSearch(query: string): Search {
  return Object.fromEntries(new URLSearchParams(query));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const set = Object.entries(search).filter((entry): entry is [string, string] => typeof entry[1] === "string");
  const query = new URLSearchParams(set).toString();
  return query && `?${query}`;
}

/** Returns a validator that keeps the named texts of an address. The router gives a view only these, with types. */
export function searchOf<const Name extends string>(...names: Name[]) {
  return (search: Record<string, unknown>): { [name in Name]?: string | undefined } => {
    const kept = names.flatMap((name) => {
      const value = search[name];
      return typeof value === "string" && value !== "" ? [[name, value]] : [];
    });
    return Object.fromEntries(kept) as { [name in Name]?: string | undefined };
  };
}

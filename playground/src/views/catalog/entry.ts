/** Entries of the catalog: a version with what its view shows, and its key. */

import type { CatalogEntryKey } from "../../api/schema.generated";
import type { CatalogEntryViewQuery } from "./operations.generated";

export type Entry = NonNullable<CatalogEntryViewQuery["catalogEntry"]>;

/** Returns the key of a version of a path; without a version, of the newest one. */
export function keyOf(path: string, version: string | undefined): CatalogEntryKey {
  return version === undefined ? { path } : { pathVersion: { path, version: Number(version) } };
}

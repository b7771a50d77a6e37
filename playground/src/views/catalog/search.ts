/** Query part of the addresses in `route.ts`. */

import { searchOf } from "../../app/search";

export const catalogSearch = searchOf("kind", "prefix", "text", "versions", "retired", "register");
export const entrySearch = searchOf("version", "show", "with", "period");

export type CatalogSearch = ReturnType<typeof catalogSearch>;
export type EntrySearch = ReturnType<typeof entrySearch>;

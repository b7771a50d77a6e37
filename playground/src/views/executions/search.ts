/** Query part of the address in `route.ts`. */

import { searchOf } from "../../app/search";

export const executionsSearch = searchOf(
  "statuses",
  "path",
  "version",
  "labels",
  "dedup",
  "id",
  "parent",
  "rerunOf",
  "since",
  "until",
  "endedSince",
  "endedUntil",
  "order",
);

export type ExecutionsSearch = ReturnType<typeof executionsSearch>;

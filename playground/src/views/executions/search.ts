/** Query part of the address in `route.ts`. */

import { searchOf } from "../../app/search";

export const executionsSearch = searchOf(
  "statuses",
  "failedSteps",
  "error",
  "path",
  "version",
  "pool",
  "labels",
  "dedup",
  "id",
  "parent",
  "rerunOf",
  "reruns",
  "since",
  "until",
  "endedSince",
  "endedUntil",
  "order",
);

export type ExecutionsSearch = ReturnType<typeof executionsSearch>;

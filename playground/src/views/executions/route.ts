/**
 * Address of the executions: `/executions`, with the filter of the server: statuses, a part of the error (`error`), the path
 * or its beginning (with `*` at the end), its version, labels (`order_id=17, team`), the dedup key (`dedup`), the first
 * digits of the id (`id`), the parent, the execution that was run again (`rerunOf`), the start time (`since`, a time or a
 * duration such as `1h`; `until`, a time), and likewise the time of the end (`endedSince`, `endedUntil`); and with the order,
 * unless it is newest first.
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { executionsSearch } from "./search";

export const executionsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/executions",
  validateSearch: executionsSearch,
  component: lazyRouteComponent(part(() => import("./view")), "ExecutionsView"),
});

/**
 * Address of the executions: `/executions`, with the filter of the server: statuses, the path or its beginning (with `*`
 * at the end), the parent, and the start time (`since`, a time or a duration such as `1h`; `until`, a time).
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { rootRoute } from "../../app/root_route";
import { searchOf } from "../../app/search";

const executionsSearch = searchOf("statuses", "path", "parent", "since", "until");

export type ExecutionsSearch = ReturnType<typeof executionsSearch>;

export const executionsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/executions",
  validateSearch: executionsSearch,
  component: lazyRouteComponent(() => import("./view"), "ExecutionsView"),
});

/**
 * Address of one execution: `/executions/<id>`, with the opened part (`tab`), the event whose moment is shown (`at`), the
 * chosen step (`step`), the run to compare with (`compare`), and the shown part of the timeline (`range`).
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { searchOf } from "../../app/search";

export const executionRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/executions/$id",
  validateSearch: searchOf("tab", "at", "step", "compare", "range"),
  component: lazyRouteComponent(part(() => import("./view")), "ExecutionView"),
});

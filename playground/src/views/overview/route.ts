/**
 * Address of the overview: `/`, with the period of the chart of executions. With `watch=1`, it is shown without navigation
 * and in larger type, for a screen on a wall.
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { searchOf } from "../../app/search";

export const overviewRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  validateSearch: searchOf("period", "watch"),
  component: lazyRouteComponent(part(() => import("./view")), "OverviewView"),
});

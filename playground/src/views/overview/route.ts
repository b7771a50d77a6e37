/** Address of the overview: `/`. */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { rootRoute } from "../../app/root_route";

export const overviewRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  component: lazyRouteComponent(() => import("./view"), "OverviewView"),
});

/** Address of the system: `/system`. Its parts have anchors, such as `/system#feeds`. */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";

export const systemRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/system",
  component: lazyRouteComponent(part(() => import("./view")), "SystemView"),
});

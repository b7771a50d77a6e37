/**
 * Address of the form: `/execute`, with the catalog path, its version (`version`; default: the newest), and the execution
 * whose workload the form repeats (`from`).
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { searchOf } from "../../app/search";

export const executeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/execute",
  validateSearch: searchOf("path", "version", "from"),
  component: lazyRouteComponent(part(() => import("./view")), "ExecuteView"),
});

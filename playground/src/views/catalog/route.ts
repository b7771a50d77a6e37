/**
 * Addresses of the catalog: `/catalog` with the filter of the list, and `/catalog/<path>` for an entry. Paths contain
 * slashes, so the rest of the address is the path. Without `version`, an entry is the newest version. `period` is that of
 * the chart of executions.
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { catalogSearch, entrySearch } from "./search";

const catalogRoute = createRoute({ getParentRoute: () => rootRoute, path: "/catalog" });

const listRoute = createRoute({
  getParentRoute: () => catalogRoute,
  path: "/",
  validateSearch: catalogSearch,
  component: lazyRouteComponent(part(() => import("./view")), "CatalogView"),
});

const entryRoute = createRoute({
  getParentRoute: () => catalogRoute,
  path: "$",
  validateSearch: entrySearch,
  component: lazyRouteComponent(part(() => import("./entry_view")), "EntryView"),
});

/** The rest of an address also matches no rest, so the list is a page of its own below `/catalog`. */
export const catalogRoutes = catalogRoute.addChildren([listRoute, entryRoute]);

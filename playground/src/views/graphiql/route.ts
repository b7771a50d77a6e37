/** Address of GraphiQL: `/graphiql`, with a document and its variables, of an "Open as GraphQL" link or of a shared one. */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { searchOf } from "../../app/search";

export const graphiqlRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/graphiql",
  validateSearch: searchOf("query", "variables"),
  component: lazyRouteComponent(part(() => import("./view")), "GraphiqlView"),
});

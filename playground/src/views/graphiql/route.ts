/** Address of GraphiQL: `/graphiql`, with the document and the variables of an "Open as GraphQL" link. */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { rootRoute } from "../../app/root_route";
import { searchOf } from "../../app/search";

export const graphiqlRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/graphiql",
  validateSearch: searchOf("query", "variables"),
  component: lazyRouteComponent(() => import("./view"), "GraphiqlView"),
});

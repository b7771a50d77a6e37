/** All routes. A view has one line here; its own folder has its route. */

import { createRouter } from "@tanstack/react-router";

import { BASE_PATH } from "../api/address";
import { auditRoute } from "../views/audit/route";
import { catalogRoutes } from "../views/catalog/route";
import { eventsRoute } from "../views/events/route";
import { executeRoute } from "../views/execute/route";
import { executionRoute } from "../views/execution/route";
import { executionsRoute } from "../views/executions/route";
import { graphiqlRoute } from "../views/graphiql/route";
import { outboxRoute } from "../views/outbox/route";
import { overviewRoute } from "../views/overview/route";
import { subscriptionRoute } from "../views/subscription/route";
import { subscriptionsRoute } from "../views/subscriptions/route";
import { systemRoute } from "../views/system/route";
import { ViewFailedPage, ViewPendingPage } from "./fallback_pages";
import { rootRoute } from "./root_route";
import { signedInRoute } from "./signed_in_route";
import { parseSearch, stringifySearch } from "./search";

const routeTree = rootRoute.addChildren([
  overviewRoute,
  eventsRoute,
  subscriptionsRoute,
  subscriptionRoute,
  executionsRoute,
  executionRoute,
  executeRoute,
  outboxRoute,
  catalogRoutes,
  auditRoute,
  systemRoute,
  graphiqlRoute,
  signedInRoute,
]);

export const router = createRouter({
  routeTree,
  basepath: BASE_PATH || "/",
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  // Shown in place of the view, inside the shell.
  defaultErrorComponent: ViewFailedPage,
  defaultPendingComponent: ViewPendingPage,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

/**
 * Address of the subscriptions: `/subscriptions`, with the filter of the server (`statuses`, `path`), whether a list of all
 * states has the deactivated ones too (`deactivated=1`), and the catalog path in the dialog that registers a subscription
 * (`register`; `choose` if none is chosen).
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { subscriptionsSearch } from "./search";

export const subscriptionsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/subscriptions",
  validateSearch: subscriptionsSearch,
  component: lazyRouteComponent(part(() => import("./view")), "SubscriptionsView"),
});

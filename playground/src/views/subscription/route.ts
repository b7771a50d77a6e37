/** Address of one subscription: `/subscriptions/<id>`, with the period of its chart. */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { searchOf } from "../../app/search";

export const subscriptionRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/subscriptions/$id",
  validateSearch: searchOf("period"),
  component: lazyRouteComponent(part(() => import("./view")), "SubscriptionView"),
});

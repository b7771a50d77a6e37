/** Address of one subscription: `/subscriptions/<id>`. */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";

export const subscriptionRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/subscriptions/$id",
  component: lazyRouteComponent(part(() => import("./view")), "SubscriptionView"),
});

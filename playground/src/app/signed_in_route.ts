/** Address at which the sign-in window ends: `/signed-in`, with the reply of the provider. The page has no shell. */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { SIGNED_IN_PATH } from "../api/sign_in_channel";
import { part } from "./parts";
import { rootRoute } from "./root_route";
import { searchOf } from "./search";

export const signedInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: SIGNED_IN_PATH,
  validateSearch: searchOf("state", "code", "error", "error_description"),
  component: lazyRouteComponent(part(() => import("./signed_in_page")), "SignedInPage"),
});

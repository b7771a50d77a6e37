/** The route above all views: the shell, and the pages for a wrong address and for a view that failed. */

import { createRootRoute, Outlet, useLocation } from "@tanstack/react-router";

import { SIGNED_IN_PATH } from "../api/sign_in_channel";
import { NotFoundPage, ViewFailedPage } from "./fallback_pages";
import { Shell } from "./shell";

export const rootRoute = createRootRoute({
  component: Frame,
  notFoundComponent: NotFoundPage,
  errorComponent: ViewFailedPage,
});

/** Draws the shell, except in the sign-in window, which sends no request to the API. */
function Frame() {
  const { pathname } = useLocation();
  return pathname === SIGNED_IN_PATH ? <Outlet /> : <Shell />;
}

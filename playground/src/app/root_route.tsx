/** The route above all views: the shell, and the pages for a wrong address and for a view that failed. */

import { createRootRoute } from "@tanstack/react-router";

import { NotFoundPage, ViewFailedPage } from "./fallback_pages";
import { Shell } from "./shell";

export const rootRoute = createRootRoute({
  component: Shell,
  notFoundComponent: NotFoundPage,
  errorComponent: ViewFailedPage,
});

/**
 * Address of the audit: `/audit`, with the filter of the server (`action`, `path`, and the time: `since`, a time or a
 * duration such as `1h`; `until`, a time), and the text to find in the loaded actions (`find`).
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { auditSearch } from "./search";

export const auditRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyRouteComponent(part(() => import("./view")), "AuditView"),
});

/**
 * Address of the outbox: `/outbox`, with the filter of the server (`statuses`, `execution`, `attempts`), the text to find
 * in the loaded entries (`find`), and the entry whose details are open (`entry`).
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { outboxSearch } from "./search";

export const outboxRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/outbox",
  validateSearch: outboxSearch,
  component: lazyRouteComponent(part(() => import("./view")), "OutboxView"),
});

/**
 * Address of the events: `/events`, with the filter of the server (types, executions, parent, nodes, statuses), the start
 * (`from`), the text to find (`find`), and the event whose details are open (`event`).
 */

import { createRoute, lazyRouteComponent } from "@tanstack/react-router";

import { part } from "../../app/parts";
import { rootRoute } from "../../app/root_route";
import { eventsSearch } from "./search";

export const eventsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/events",
  validateSearch: eventsSearch,
  component: lazyRouteComponent(part(() => import("./view")), "EventsView"),
});

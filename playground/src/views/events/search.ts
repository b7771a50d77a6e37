/** Query part of the address in `route.ts`. */

import { searchOf } from "../../app/search";

export const eventsSearch = searchOf("types", "executions", "parent", "nodes", "statuses", "from", "find", "event");

export type EventsSearch = ReturnType<typeof eventsSearch>;

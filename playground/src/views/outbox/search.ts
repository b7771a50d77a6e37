/** Query part of the address in `route.ts`. */

import { searchOf } from "../../app/search";

export const outboxSearch = searchOf("statuses", "execution", "attempts", "find", "entry");

export type OutboxSearch = ReturnType<typeof outboxSearch>;

/** Query part of the address in `route.ts`. */

import { searchOf } from "../../app/search";

export const subscriptionsSearch = searchOf("statuses", "path", "labels", "deactivated", "register");

export type SubscriptionsSearch = ReturnType<typeof subscriptionsSearch>;

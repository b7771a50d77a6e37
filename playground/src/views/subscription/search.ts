/** Query part of the address in `route.ts`. */

import { searchOf } from "../../app/search";

export const subscriptionSearch = searchOf("period");

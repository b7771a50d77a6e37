/** The subscription that the view shows. */

import type { SubscriptionDetailQuery } from "./operations.generated";

export type Subscription = NonNullable<SubscriptionDetailQuery["subscription"]>;

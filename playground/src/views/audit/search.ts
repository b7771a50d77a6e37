/** Query part of the address in `route.ts`. */

import { searchOf } from "../../app/search";

export const auditSearch = searchOf("action", "path", "since", "until", "find");

export type AuditSearch = ReturnType<typeof auditSearch>;

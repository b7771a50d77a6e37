/** The signed-in user: name, roles, and permission for an action. */

import { useApiQuery } from "./hooks";
import type { Capability } from "./schema.generated";
import { ViewerDocument } from "./viewer.generated";

/** Name of a caller whom the server does not identify: the user of this page, or the caller of an action. */
export const NOT_IDENTIFIED = "Not identified";

export interface PermissionAnswer {
  allowed: boolean;
  /** Explanation of a refusal for the user; undefined if the action is allowed. */
  reason?: string;
}

/** Returns the caller and the server, as the server describes them. */
export function useViewer() {
  return useApiQuery(ViewerDocument, {}, { every: 60_000 });
}

/** Returns whether the user's roles permit an action that needs a capability, or one of several capabilities. */
export function usePermission(needed: Capability | readonly Capability[]): PermissionAnswer {
  const { data } = useViewer();
  const viewer = data?.data.viewer;
  if (!viewer) {
    return { allowed: false, reason: "Your permissions are not known yet." };
  }
  const capabilities = typeof needed === "string" ? [needed] : needed;
  if (capabilities.some((capability) => viewer.capabilities.includes(capability))) {
    return { allowed: true };
  }
  const roles = viewer.roles.length > 0 ? `role ${viewer.roles.join(", ")}` : "token";
  return { allowed: false, reason: `Your ${roles} does not include the capability ${capabilities.join(" or ")}.` };
}

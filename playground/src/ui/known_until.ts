/** Time until which the page knows the state of the server. */

import { useSyncExternalStore } from "react";

import { connectionLostAt, subscribeConnection } from "../api/socket";
import { useNow } from "./clock";

/** Returns the time at which the connection was lost; null while it is not lost. */
export function useConnectionLoss(): number | null {
  return useSyncExternalStore(subscribeConnection, connectionLostAt);
}

/** Returns the current time. While the connection is lost, the time stands still: what has ended since is not known. */
export function useKnownUntil(): number {
  const now = useNow();
  return useConnectionLoss() ?? now;
}

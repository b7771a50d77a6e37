/**
 * Counts the executions of the watched views once a minute, and notifies the user when there are more than the limit of a
 * view. Each page of the console has a watcher, but only the page that holds a lock counts, so the user is notified once.
 * When that page is closed or loses its sign-in, another one takes the lock.
 */

import { useNavigate } from "@tanstack/react-router";
import { useEffect, useSyncExternalStore } from "react";

import { send } from "../../api/client";
import { signInState, subscribeSignIn } from "../../api/token";
import { useViewer } from "../../api/viewer";
import { formatCount, formatNumber } from "../../ui/format";
import { useStored } from "../../ui/stored";
import { filterOf } from "./filter";
import { showNotification } from "./notification";
import { ExecutionCountsDocument, type ExecutionCountsQuery } from "./operations.generated";
import { SAVED_VIEWS, WATCHES } from "./saved_views_store";
import type { ExecutionsSearch } from "./search";

const LOCK = "noetl.executions.watches";
const EVERY_MS = 60_000;

type Stats = NonNullable<ExecutionCountsQuery["executionStats"]>;
type Open = (search: ExecutionsSearch) => void;

/** Draws nothing. */
export default function ViewWatcher() {
  const navigate = useNavigate();
  const limits = Object.entries(useStored(WATCHES)).map(([name, { above }]) => [name, above]);
  const watched = JSON.stringify(limits);
  const { asking } = useSyncExternalStore(subscribeSignIn, signInState);
  const { data } = useViewer();
  const ready = limits.length > 0 && asking === null && Boolean(data?.data.viewer);
  // A changed watch begins again, so that it is counted at once.
  useEffect(() => {
    if (ready && "locks" in navigator) {
      return whileLocked((signal) => void countAll((search) => void navigate({ to: "/executions", search }), signal));
    }
  }, [ready, watched, navigate]);
  return null;
}

/** Calls a function at once and then each minute, while this page holds the lock and until the returned function is called. */
function whileLocked(run: (signal: AbortSignal) => void): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  const held = () =>
    new Promise<void>((release) => {
      run(signal);
      const timer = window.setInterval(() => run(signal), EVERY_MS);
      signal.addEventListener("abort", () => {
        window.clearInterval(timer);
        release();
      });
    });
  // A request for the lock that is aborted while it waits is rejected.
  navigator.locks.request(LOCK, { signal }, held).catch(() => {});
  return () => stop.abort();
}

async function countAll(open: Open, signal: AbortSignal): Promise<void> {
  for (const [name, watch] of Object.entries(WATCHES.all())) {
    const search = SAVED_VIEWS.all()[name];
    const stats = search && (await count(search, signal));
    if (!stats || signal.aborted) {
      continue;
    }
    // A lower number says nothing while a shard is missing.
    const exceeded = stats.total > watch.above || (watch.exceeded && stats.unavailableShards.length > 0);
    // A notification that the browser refuses is tried again with the next count.
    if (exceeded !== watch.exceeded && (!exceeded || notify(name, stats, watch.above, () => open(search)))) {
      WATCHES.set(name, { ...watch, exceeded });
    }
  }
}

/** Returns the numbers of a view; null if they could not be read, so that the next attempt is after a minute. */
async function count(search: ExecutionsSearch, signal: AbortSignal): Promise<Stats | null> {
  try {
    const { data } = await send(ExecutionCountsDocument, { filter: filterOf(search, Date.now()) }, signal);
    return data.executionStats;
  } catch {
    return null;
  }
}

/** Notifies the user. Returns whether the browser accepted the notification. */
function notify(name: string, { total, capped }: Stats, above: number, open: () => void): boolean {
  const number = formatCount({ value: total, capped });
  const title = `${name}: ${number} ${number === "1" ? "execution" : "executions"}`;
  const notification = showNotification(title, `More than ${formatNumber(above)}`);
  if (!notification) {
    return false;
  }
  notification.addEventListener("click", () => {
    window.focus();
    open();
    notification.close();
  });
  return true;
}

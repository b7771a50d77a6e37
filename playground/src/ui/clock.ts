/** Current time for relative times, in steps of one second, and the user's choice of the zone. Both are shared. */

import { useSyncExternalStore } from "react";

export type Zone = "local" | "utc";

const STEP_MS = 1_000;
const STORED = "noetl.zone";
let now = Date.now();
let timer: number | undefined;
const clockListeners = new Set<() => void>();

let zone: Zone = window.localStorage.getItem(STORED) === "utc" ? "utc" : "local";
const zoneListeners = new Set<() => void>();

/** Returns the current time in milliseconds, and draws the caller again every second. */
export function useNow(): number {
  return useSyncExternalStore(listenToClock, () => now);
}

/** Returns the zone in which times are shown. */
export function useZone(): Zone {
  return useSyncExternalStore(listenToZone, () => zone);
}

/** Changes the zone for all times on the page, and for the next visit. */
export function setZone(chosen: Zone): void {
  zone = chosen;
  window.localStorage.setItem(STORED, chosen);
  zoneListeners.forEach((listener) => listener());
}

function listenToClock(listener: () => void): () => void {
  clockListeners.add(listener);
  timer ??= window.setInterval(step, STEP_MS);
  return () => {
    clockListeners.delete(listener);
    if (clockListeners.size === 0) {
      window.clearInterval(timer);
      timer = undefined;
    }
  };
}

function step(): void {
  now = Date.now();
  clockListeners.forEach((listener) => listener());
}

function listenToZone(listener: () => void): () => void {
  zoneListeners.add(listener);
  return () => zoneListeners.delete(listener);
}

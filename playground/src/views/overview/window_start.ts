/** Start of a time window that ends now. It moves in steps, so that a query with it is not a different one at each drawing. */

import { useEffect, useState } from "react";

const STEP_MS = 10_000;

/** Returns the start of the last `length` milliseconds, and draws the caller again every ten seconds. */
export function useWindowStart(length: number): string {
  const [start, setStart] = useState(() => startOf(length));
  useEffect(() => {
    const timer = window.setInterval(() => setStart(startOf(length)), STEP_MS);
    return () => window.clearInterval(timer);
  }, [length]);
  return start;
}

function startOf(length: number): string {
  return new Date(Date.now() - length).toISOString();
}

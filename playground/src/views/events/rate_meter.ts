/** Counts arrivals per second over the last two minutes. */

import type { Point } from "../../ui/rate_chart";

const SECONDS = 120;

export class RateMeter {
  private counts = new Map<number, number>();

  count(): void {
    const second = Math.floor(Date.now() / 1_000);
    this.counts.set(second, (this.counts.get(second) ?? 0) + 1);
    if (this.counts.size > 2 * SECONDS) {
      this.counts = new Map([...this.counts].filter(([at]) => at > second - SECONDS));
    }
  }

  reset(): void {
    this.counts = new Map();
  }

  /** Returns the counts of the last whole seconds, oldest first. */
  points(): Point[] {
    const now = Math.floor(Date.now() / 1_000);
    return Array.from({ length: SECONDS }, (_, index) => {
      const at = now - SECONDS + index;
      return { at, value: this.counts.get(at) ?? 0 };
    });
  }
}

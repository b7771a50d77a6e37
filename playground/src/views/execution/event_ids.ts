/** Ids of events. */

/** Compares ids as numbers. They have more digits than a number of JavaScript. */
export function compareIds(a: string, b: string): number {
  return a.length - b.length || (a < b ? -1 : Number(a > b));
}

import { expect, test } from "vitest";

import { placedBy, placeOf } from "../src/views/execution/log_pages";
import { findPlace } from "../src/views/execution/log_search";

const EVENTS = 40_000;
const PAGE = 100;

/** A log whose events have these times, in the order of the log, and counts its requests. */
function logOf(times: readonly number[]) {
  const log = {
    requests: 0,
    async countBefore(time: number) {
      log.requests += 1;
      return times.filter((one) => one < time).length;
    },
    async pageFrom(time: number | null, after: string | null) {
      log.requests += 1;
      const places = [...times.keys()].filter((place) => (time === null || times[place]! >= time) && place > Number(after ?? -1));
      const found = places.slice(0, PAGE).map((place) => ({ cursor: String(place), node: place }));
      return { found, next: places.length > PAGE ? found.at(-1)!.cursor : null };
    },
  };
  return log;
}

async function find(times: readonly number[], place: number) {
  const log = logOf(times);
  const end = { place: EVENTS - 5_000, time: times[EVENTS - 5_000]! };
  const found = await findPlace(log, place, times[0]!, end);
  return { place: found?.node, requests: log.requests };
}

function times(timeOf: (place: number) => number): number[] {
  return Array.from({ length: EVENTS }, (_, place) => Math.floor(timeOf(place)));
}

test.each([
  ["evenly in an hour", times((place) => place * 90), 2],
  ["more and more", times((place) => 1e6 * (place / EVENTS) ** 2), 8],
  ["in 40 batches of one time each, with pauses", times((place) => Math.floor(place / 1_000) * 60_000), 30],
  ["in the last 40 s of a day", times((place) => (place < 10 ? place : 86_400_000 + place)), 20],
])("an event of 40,000 that come %s is found with few requests", async (_, log, most) => {
  for (const place of [0, 17, 999, 12_345, 20_000, 34_999]) {
    const found = await find(log, place);
    expect(found.place).toBe(place);
    expect(found.requests).toBeLessThanOrEqual(most);
  }
});

test("in a log whose events have one time, an event near the beginning is returned", async () => {
  expect(await find(times(() => 7), 20_000)).toEqual({ place: 999, requests: 10 });
});

test("an event of a worker whose clock is wrong does not lead away from the place", async () => {
  const log = times((place) => (place % 5_000 === 4_999 ? 0 : place * 90));
  const { place, requests } = await find(log, 20_000);
  expect(Math.abs(place! - 20_000)).toBeLessThan(10);
  expect(requests).toBeLessThanOrEqual(6);
});

test("one event with a known place gives the places of the events around it", () => {
  const part = { place: 100, events: ["7", "8", "9"].map((eventId) => ({ eventId })) };
  const log = { events: [], start: [], total: 500, part: placedBy(part, { event: { eventId: "8" }, place: 104 }) };
  expect(placeOf(log, "9")).toBe(105);
  expect(placedBy(part, { event: { eventId: "6" }, place: 104 })).toBe(part);
});

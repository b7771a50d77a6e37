import type { Page } from "@playwright/test";

import { graphql } from "./api";
import { expect, test } from "./console";
import { writeEvents } from "./event_writer";

const RATE = 1000;
const SECONDS = Number(process.env.NOETL_LOAD_SECONDS ?? 10);
const MIB = 1024 * 1024;
/** Memory of the page with all of its rows, after a garbage collection. */
const HEAP_LIMIT_MIB = 150;
/** A page that blocks does so for seconds. Shorter tasks also come from other programs on the machine. */
const LONG_TASK_LIMIT_MS = 500;
/** A stall of the machine lengthens a task too, so a measurement above the limit is repeated up to this number. */
const MEASUREMENTS = 3;

test("with 1,000 events per second, the counter equals the log, memory is bounded, and the page does not block", async ({
  console,
  page,
}) => {
  test.setTimeout((MEASUREMENTS * (SECONDS + 60) + 120) * 1000);
  const type = `load.${crypto.randomUUID()}`;
  await page.addInitScript(recordLongTasks);
  await console.events.open(`?types=${type}`);
  let [written, measurements, longest] = [0, 0, Number.POSITIVE_INFINITY];
  while (longest >= LONG_TASK_LIMIT_MS && measurements < MEASUREMENTS) {
    measurements += 1;
    const tasksBefore = (await longTasks(page)).length;
    written += await writeEvents(console.url, { type, rate: RATE, seconds: SECONDS });
    expect(await logLength(console.url, type)).toBe(written);
    await expect.poll(() => received(page), { timeout: 60_000 }).toBe(written);
    longest = Math.max(0, ...(await longTasks(page)).slice(tasksBefore));
  }
  const heapMib = Math.round((await usedHeap(page)) / MIB);
  const measured = `${Math.round(written / SECONDS / measurements)} events/s, longest task ${Math.round(longest)} ms, heap ${heapMib} MiB`;
  test.info().annotations.push({ type: "measured", description: measured });
  process.stdout.write(`    ${written} events, ${measured}\n`);
  expect(longest).toBeLessThan(LONG_TASK_LIMIT_MS);
  expect(heapMib).toBeLessThan(HEAP_LIMIT_MIB);
});

async function logLength(url: string, type: string): Promise<number> {
  const { events } = await graphql<{ events: { totalCount: { value: number; capped: boolean } } }>(
    url,
    `query ($type: String!) { events(filter: { types: [$type] }, first: 1) { totalCount(upTo: 100000) { value capped } } }`,
    { type },
  );
  expect(events.totalCount.capped).toBe(false);
  return events.totalCount.value;
}

async function received(page: Page): Promise<number> {
  return Number((await page.getByTestId("received").innerText()).replace(/\D/g, ""));
}

/** Returns the used memory of the page after a garbage collection, in bytes. */
async function usedHeap(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  await session.send("Performance.enable");
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "JSHeapUsedSize")?.value ?? Number.NaN;
}

interface Recorder {
  longTasks: number[];
}

function recordLongTasks(): void {
  const recorder = window as unknown as Recorder;
  recorder.longTasks = [];
  new PerformanceObserver((list) => {
    recorder.longTasks.push(...list.getEntries().map(({ duration }) => duration));
  }).observe({ type: "longtask" });
}

/** Returns the durations of the tasks above 50 ms, in milliseconds. */
async function longTasks(page: Page): Promise<number[]> {
  return page.evaluate(() => (window as unknown as Recorder).longTasks);
}

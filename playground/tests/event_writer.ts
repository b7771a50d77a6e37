import { setTimeout as delay } from "node:timers/promises";

import { execute, graphql } from "./api";

const RESERVE = `mutation ($count: Int!) { reserveEventIds(input: { count: $count }) { eventIds } }`;
const PROJECT = `mutation ($events: [EventInput!]!) { projectEvents(input: { events: $events }) { projected } }`;
const BATCHES_PER_SECOND = 4;
const EXECUTIONS = 20;

interface Load {
  /** Type of all written events. */
  type: string;
  /** Wanted number of events per second. A slow server gets fewer. */
  rate: number;
  seconds: number;
}

/** Reports events of some executions at a rate, for a time, and returns their number. */
export async function writeEvents(url: string, { type, rate, seconds }: Load): Promise<number> {
  const executions = await Promise.all(Array.from({ length: EXECUTIONS }, () => execute(url)));
  const began = Date.now();
  let written = 0;
  for (let batch = 0; Date.now() < began + seconds * 1000; batch += 1) {
    written += await writeBatch(url, type, executions, rate / BATCHES_PER_SECOND);
    await delay(Math.max(0, began + ((batch + 1) * 1000) / BATCHES_PER_SECOND - Date.now()));
  }
  return written;
}

async function writeBatch(url: string, type: string, executions: string[], count: number): Promise<number> {
  const { reserveEventIds } = await graphql<{ reserveEventIds: { eventIds: string[] } }>(url, RESERVE, { count });
  const events = reserveEventIds.eventIds.map((eventId, index) => ({
    eventId,
    executionId: executions[index % executions.length],
    type,
    nodeName: "load",
    status: "RUNNING",
  }));
  const { projectEvents } = await graphql<{ projectEvents: { projected: number } }>(url, PROJECT, { events });
  return projectEvents.projected;
}

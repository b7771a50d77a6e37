/** Writes the screenshots of the documents into docs/, with the traffic of the demo. */

import { resolve } from "node:path";

import { graphql } from "../tests/api";
import { expect, test } from "../tests/console";
import { BINARY } from "../tests/control_plane";
import { Program } from "../tests/program";

const FOLDER = resolve("../docs");
const DEMO_RATE = 4;
/** Time in which the charts get their lines. */
const CHARTS_MS = 30_000;

const SIZE = { width: 1280, height: 760 };
/** Size for a view full of text, so that its file stays small. */
const LOW = { width: 1280, height: 600 };

test.use({ viewport: SIZE, colorScheme: "light" });

test("screenshots of the overview, the events and the flow of an execution", async ({ console, page }) => {
  const demo = new Program(BINARY, ["demo", "--url", console.url, "--rate", String(DEMO_RATE)]);
  try {
    await console.open("/", "Overview");
    await expect(console.connection).toHaveText("Live");
    await page.waitForTimeout(CHARTS_MS);
    await page.screenshot({ path: `${FOLDER}/console-overview.png` });

    await page.setViewportSize(LOW);
    await console.open("/events?from=beginning", "Events");
    await expect(console.events.state).toHaveText("Live");
    await page.waitForTimeout(CHARTS_MS / 3);
    await page.screenshot({ path: `${FOLDER}/console-events.png` });

    const id = await executionWithRetry(console.url);
    await page.setViewportSize(SIZE);
    await console.open(`/executions/${id}?tab=flow`, "samples/orders/process");
    await expect(page.getByLabel("Loading")).toHaveCount(0);
    await expect(page.getByRole("tabpanel")).not.toBeEmpty();
    await page.screenshot({ path: `${FOLDER}/console-execution.png` });
  } finally {
    await demo.end("SIGINT", 60_000);
  }
});

/** Returns the completed execution with the most events of the newest ones: its steps were repeated. */
async function executionWithRetry(url: string): Promise<string> {
  const { executions } = await graphql<{ executions: { nodes: { id: string; eventCount: string }[] } }>(
    url,
    `{ executions(filter: { statuses: [COMPLETED] }, first: 50) { nodes { id eventCount } } }`,
  );
  const [longest] = executions.nodes.toSorted((a, b) => Number(b.eventCount) - Number(a.eventCount));
  if (!longest) {
    throw new Error("The demo completed no execution.");
  }
  return longest.id;
}

import { expect, test, type Page } from "@playwright/test";

import { execute, graphql, report } from "./api";
import { Console } from "./console";
import { Deployment } from "./deployment";

/** A tall window draws all rows of these tests. */
test.use({ viewport: { width: 1280, height: 3000 } });

const LOST_MS = 45_000;
let deployment: Deployment;

/** The tests share the deployment, so a test finds the events of the earlier ones. The last two lose messages of the streams. */
test.beforeAll(async () => {
  deployment = await Deployment.start();
});

test.afterAll(async () => {
  await deployment?.stop();
});

test("after the server is killed and restarted, the page reconnects and its list equals the log", async ({ page }) => {
  const console = await followedFromBeginning(page);
  await deployment.killServer();
  await expect(console.connection).toHaveText("Reconnecting…");
  await expect(console.events.state).toHaveText("Reconnecting…");
  await deployment.startServer();
  await executeSome();
  await expect(console.events.state).toHaveText("Live");
  await listEqualsLog(console);
  await expect(console.events.list.getByText(/^Gap on shard/)).toHaveCount(0);
});

test("while the server is away, a list says of when it is, and ages and durations of running executions stand still", async ({ page }) => {
  const console = new Console(page, deployment.url);
  const ended = await execute(deployment.url);
  await report(deployment.url, ended, [{ type: "playbook.completed", status: "COMPLETED" }]);
  const running = await execute(deployment.url);
  await console.open("/executions", "Executions");
  const live = page.getByRole("status", { name: "List" });
  await expect(live).toHaveText("Live");
  const rowOf = (id: string) => page.getByRole("row").filter({ hasText: id });
  const startOf = (id: string) => rowOf(id).locator('td[data-title="Started"]');
  await expect(rowOf(ended)).toContainText("Completed");
  const duration = rowOf(running).locator('td[data-title="Duration"]');
  await deployment.killServer();
  await expect(console.connection).toHaveText("Reconnecting…");
  const asOf = page.getByText(/^As of \d\d:\d\d:\d\d$/);
  await expect(asOf).toBeVisible();
  const [earlier, age, length] = [await startOf(ended).innerText(), await startOf(running).innerText(), await duration.innerText()];
  // The age of an ended execution goes on, so it shows that time has passed.
  await expect(startOf(ended)).not.toHaveText(earlier);
  await expect(startOf(running)).toHaveText(age);
  await expect(duration).toHaveText(length);
  await deployment.startServer();
  await expect(live).toHaveText("Live");
  await expect(asOf).toHaveCount(0);
});

test("while the server is away, a view that was not loaded waits inside the shell, and opens when the server is back", async ({ page }) => {
  const console = new Console(page, deployment.url);
  const view = (name: string) => page.getByRole("navigation", { name: "Views" }).getByRole("link", { name });
  await page.goto(deployment.url);
  await expect(console.connection).toHaveText("Live");
  await deployment.killServer();
  await expect(console.connection).toHaveText("Reconnecting…");
  await view("Audit").click();
  await expect(console.title).toHaveText("This view is not loaded yet");
  await expect(view("Catalog")).toBeVisible();
  await deployment.startServer();
  await expect(console.title).toHaveText("Audit");

  // A server of another version does not have the files of this page.
  await page.route("**/assets/**", (route) => route.fulfill({ status: 404 }));
  await view("Catalog").click();
  await expect(console.title).toHaveText("This view needs a reload");
  await expect(view("Audit")).toBeVisible();
  await page.unroute("**/assets/**");
  await page.getByRole("button", { name: "Reload" }).click();
  await expect(console.title).toHaveText("Catalog");
});

test("after the broker is killed and restarted, the list equals the log", async ({ page }) => {
  const console = await followedFromBeginning(page);
  await deployment.killBroker();
  await executeSome();
  await deployment.startBroker();
  await executeSome();
  await listEqualsLog(console);
  await expect(console.events.list.getByText(/^Gap on shard/)).toHaveCount(0);
});

test("after the broker lost its streams, a row names the new epoch, and the list equals the log", async ({ page }) => {
  const console = await followedFromBeginning(page);
  await deployment.killBroker();
  await deployment.loseStreams();
  await executeSome();
  await deployment.startBroker();
  await expect.poll(epochs, { timeout: LOST_MS }).toEqual([2, 2]);
  await executeSome();
  await listEqualsLog(console);
  await expect(console.events.list.getByText(/^Gap on shard \d, .*restarted after a loss of data/)).toHaveCount(2);
});

test("an execution whose events have left the stream shows its stored events, and the next one live", async ({ page }) => {
  const id = await execute(deployment.url);
  await expect.poll(unpublished, { timeout: LOST_MS }).toEqual(["0", "0"]);
  await deployment.purgeStreams();
  const stored = (await log()).filter((event) => event.endsWith(id));
  const console = new Console(page, deployment.url);
  await page.goto(`${deployment.url}/executions/${id}?tab=events`);
  await page.getByRole("link", { name: "Open in Events" }).click();
  await console.events.following();
  await expect(console.events.rows).toHaveCount(stored.length);
  await report(deployment.url, id, [{ type: "step.enter", nodeName: "charge", status: "ENTERED" }]);
  await expect(console.events.rows.last()).toContainText("step.enter");
  await expect(console.events.rows).toHaveCount(stored.length + 1);
  await expect(console.events.list.getByText(/^Gap on shard/)).toHaveCount(0);
});

/** Opens the events of all executions, and waits until the list equals the log. */
async function followedFromBeginning(page: Page): Promise<Console> {
  const console = new Console(page, deployment.url);
  await executeSome();
  await console.events.open("?from=beginning");
  await executeSome();
  await listEqualsLog(console);
  return console;
}

async function executeSome(): Promise<void> {
  for (let count = 0; count < 5; count += 1) {
    await execute(deployment.url);
  }
}

/** Waits until the list has each event of the log once, and no other event. */
async function listEqualsLog(console: Console): Promise<void> {
  const logged = await log();
  expect(logged.length).toBeGreaterThan(0);
  await expect.poll(async () => (await listed(console)).toSorted(), { timeout: LOST_MS }).toEqual(logged);
}

async function log(): Promise<string[]> {
  const { events } = await graphql<{ events: { nodes: Logged[]; pageInfo: { hasNextPage: boolean } } }>(
    deployment.url,
    `{ events(first: 100) { nodes { type executionId } pageInfo { hasNextPage } } }`,
  );
  expect(events.pageInfo.hasNextPage).toBe(false);
  return events.nodes.map(({ type, executionId }) => `${type} ${executionId}`).toSorted();
}

interface Logged {
  type: string;
  executionId: string;
}

/** Returns type and execution of each listed event. */
async function listed(console: Console): Promise<string[]> {
  return console.events.rows.evaluateAll((rows) =>
    rows.map((row) => {
      const text = (row as HTMLElement).innerText;
      return `${/[a-z]+[_.]\w+/.exec(text)?.[0]} ${/\d{15,}/.exec(text)?.[0]}`;
    }),
  );
}

async function epochs(): Promise<number[]> {
  const { eventStream } = await graphql<{ eventStream: { shards: { feedEpoch: number }[] } }>(
    deployment.url,
    `{ eventStream { shards { feedEpoch } } }`,
  );
  return eventStream.shards.map((feed) => feed.feedEpoch);
}

/** Returns the number of events of each shard that are not published yet. */
async function unpublished(): Promise<string[]> {
  const { eventStream } = await graphql<{ eventStream: { shards: { lagEvents: string }[] } }>(
    deployment.url,
    `{ eventStream { shards { lagEvents } } }`,
  );
  return eventStream.shards.map((feed) => feed.lagEvents);
}

import type { Page } from "@playwright/test";

import { expectAccessible } from "./accessibility";
import { graphql, idle, registerPlaybook, report, startedElsewhere } from "./api";
import { executionRow, expect, test } from "./console";
import { Task } from "./task";

const TITLE = "Executions of the last 24 hours";
const HOUR_MS = 3_600_000;

test("one click on the overview leads to the hour in which the failures of the day began", async ({ console, page }) => {
  const path = await registerPlaybook(console.url);
  // No other test has failures as early as this.
  const createdAt = new Date(Date.now() - 22 * HOUR_MS).toISOString();
  const first = await startedElsewhere(console.url, path, createdAt);
  await report(console.url, first, [{ type: "playbook.failed", status: "FAILED", error: "no answer", createdAt }]);
  const later = await failed(console.url, path);
  await expect.poll(() => totals(console.url, path)).toMatchObject({ failed: 2 });
  await console.open("/", "Overview");
  const figure = page.getByRole("link", { name: /^Executions failed/ });
  await expect(figure).toHaveAttribute("href", /statuses=FAILED&endedSince=5m/);
  const hours = chartOf(page).getByRole("link", { name: /^\d\d:\d\d, [\d,]+ failed$/ });
  const task = new Task();
  await task.act(hours.first().click());
  await expect(page).toHaveURL(/statuses=FAILED&endedSince=[^&]+&endedUntil=/);
  await expect(executionRow(page, first)).toContainText("Failed");
  await expect(executionRow(page, later)).toHaveCount(0);
  expect(task.count).toBe(1);
  await page.goBack();
  await hours.last().click();
  await expect(executionRow(page, later)).toContainText("Failed");
});

test("the bars of a path lead to its executions by click and by key, and have percentiles and a table", async ({
  console,
  page,
}) => {
  const { path, ids } = await withinAnHour(async () => {
    const path = await registerPlaybook(console.url);
    await console.open(`/catalog/${path}`, path);
    await expect(page.getByText("No executions in this time")).toBeVisible();
    return { path, ids: { failed: await failed(console.url, path), cancelled: await cancelled(console.url, path) } };
  });
  await expect.poll(() => totals(console.url, path)).toEqual({ completed: 0, failed: 1, cancelled: 1, started: 2 });

  // An empty chart is read again soon; one with a bar only after a minute.
  await expect(chartOf(page).getByRole("link").first()).toBeVisible();
  await page.reload();
  const bar = chartOf(page).getByRole("link", { name: /^\d\d:\d\d, 1 failed, 1 cancelled, 2 started$/ });
  await bar.focus();
  await expect(chartOf(page)).toContainText(/Duration: p50 .*Wait: p50 /);
  await page.getByRole("button", { name: "As a table" }).click();
  const table = page.getByRole("table", { name: `${TITLE} as a table` });
  await expect(table.getByRole("link", { name: /^2 started, / })).toBeVisible();
  await expectAccessible(page, "execution-history");
  await page.setViewportSize({ width: 1440, height: 900 });

  await bar.focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await expect(console.title).toHaveText("Executions");
  await expect(executionRow(page, ids.failed)).toBeVisible();
  await expect(executionRow(page, ids.cancelled)).toHaveCount(0);
  await page.goBack();
  await bar.click({ position: { x: 1, y: 1 } });
  await expect(executionRow(page, ids.failed)).toBeVisible();
  await expect(executionRow(page, ids.cancelled)).toBeVisible();
});

test("the chart is read again each minute while the page is visible", async ({ console, page }) => {
  let sent = 0;
  page.on("request", (request) => {
    sent += request.postData()?.includes("query ExecutionHistory(") ? 1 : 0;
  });
  await page.clock.install();
  await console.open("/", "Overview");
  await expect(page.getByRole("region", { name: TITLE }).getByLabel("Loading")).toHaveCount(0);
  const first = sent;
  expect(first).toBeGreaterThan(0);
  await page.clock.fastForward("01:01");
  await expect.poll(() => sent).toBeGreaterThan(first);

  await setVisibility(page, "hidden");
  const before = sent;
  await page.clock.fastForward("02:00:00");
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  expect(sent).toBe(before);
  await setVisibility(page, "visible");
  await expect.poll(() => sent).toBeGreaterThan(before);
});

test("a chart that can't be read again keeps its bars and shows the error, and missing shards are not empty", async ({
  console,
  page,
}) => {
  await cancelled(console.url, await registerPlaybook(console.url));
  let reply: object | null = null;
  await page.route("**/graphql", (route) => {
    const isHistory = route.request().postData()?.includes("query ExecutionHistory(") ?? false;
    return isHistory && reply ? route.fulfill({ json: reply }) : route.continue();
  });
  await page.clock.install();
  await console.open("/?period=1h", "Overview");
  const region = page.getByRole("region", { name: "Executions of the last hour" });
  const chart = region.getByRole("figure");
  await expect(chart).toBeVisible();
  reply = { errors: [{ message: "The server is busy.", extensions: { code: "OVERLOADED" } }] };
  await page.clock.fastForward("01:01");
  await expect(region.getByRole("alert").filter({ hasText: "The server is busy." })).toBeVisible();
  await expect(chart).toBeVisible();

  reply = { data: { executionHistory: { buckets: [], unavailableShards: [1] } } };
  await region.getByRole("button", { name: "Try again" }).click();
  await expect(region.getByRole("alert")).toContainText("The database of shard 1 can't be read now.");
  await expect(region.getByText("No executions in this time")).toHaveCount(0);
});

/** Repeats an action in which an hour ended, so that all that it does belongs to one bar. */
async function withinAnHour<T>(action: () => Promise<T>): Promise<T> {
  const hour = () => Math.floor(Date.now() / HOUR_MS);
  const begun = hour();
  const result = await action();
  return hour() === begun ? result : withinAnHour(action);
}

function chartOf(page: Page) {
  return page.getByRole("figure", { name: TITLE });
}

async function setVisibility(page: Page, state: DocumentVisibilityState): Promise<void> {
  await page.evaluate((value) => {
    Object.defineProperty(document, "visibilityState", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));
  }, state);
}

async function failed(url: string, path: string): Promise<string> {
  const executionId = await idle(url, path);
  await report(url, executionId, [
    { type: "command.started", nodeName: "start" },
    { type: "playbook.failed", status: "FAILED", error: "no answer" },
  ]);
  return executionId;
}

async function cancelled(url: string, path: string): Promise<string> {
  const id = await idle(url, path);
  await graphql(url, `mutation ($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled } }`, { id });
  return id;
}

interface Totals {
  completed: number;
  failed: number;
  cancelled: number;
  started: number;
}

/** Returns the numbers of the executions of a path in the last day, as the API counts them. */
async function totals(url: string, path: string): Promise<Totals> {
  const { executionHistory } = await graphql<{ executionHistory: { buckets: Totals[] } }>(
    url,
    `query ($from: DateTime!, $to: DateTime!, $path: String!) {
      executionHistory(interval: DAY, from: $from, to: $to, filter: { paths: [$path] }) {
        buckets { completed failed cancelled started }
      }
    }`,
    { from: new Date(Date.now() - 86_400_000).toISOString(), to: new Date(Date.now() + 60_000).toISOString(), path },
  );
  const sum = (name: keyof Totals) => executionHistory.buckets.reduce((all, bucket) => all + bucket[name], 0);
  return { completed: sum("completed"), failed: sum("failed"), cancelled: sum("cancelled"), started: sum("started") };
}

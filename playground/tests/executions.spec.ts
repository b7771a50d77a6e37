import type { Page } from "@playwright/test";

import { graphql } from "./api";
import { expect, test } from "./console";

const PATH = "samples/orders/process";

function rowOf(page: Page, id: string) {
  return page.getByRole("table", { name: "Executions" }).getByRole("row").filter({ hasText: id });
}

/** Adds an execution that no worker takes, so that its status changes only by the test. */
async function idle(url: string, workload: object = {}): Promise<string> {
  const { execute: payload } = await graphql<{ execute: { executionId: string } }>(
    url,
    `mutation ($workload: JSON) {
      execute(input: { entry: { path: "${PATH}" }, executionPool: "no-worker", workload: $workload }) { executionId }
    }`,
    { workload },
  );
  return payload.executionId;
}

/** Adds events of a step, as a worker reports them. */
async function report(url: string, executionId: string, events: object[]): Promise<void> {
  const { reserveEventIds } = await graphql<{ reserveEventIds: { eventIds: string[] } }>(
    url,
    `mutation ($count: Int!) { reserveEventIds(input: { count: $count }) { eventIds } }`,
    { count: events.length },
  );
  const { projectEvents } = await graphql<{ projectEvents: { projected: number } }>(
    url,
    `mutation ($events: [EventInput!]!) { projectEvents(input: { events: $events }) { projected } }`,
    { events: events.map((event, index) => ({ ...event, executionId, eventId: reserveEventIds.eventIds[index] })) },
  );
  expect(projectEvents.projected).toBe(events.length);
}

const FAILED_STEP = [
  { type: "step.enter", nodeName: "charge", status: "ENTERED" },
  { type: "command.issued", nodeName: "charge", status: "PENDING", meta: { command_id: "charge:1", attempt: 1 } },
  { type: "command.started", nodeName: "charge", status: "STARTED", meta: { command_id: "charge:1", attempt: 1 } },
  { type: "command.failed", nodeName: "charge", status: "FAILED", error: "no answer", meta: { command_id: "charge:1", attempt: 1 } },
];

test("a started execution appears in the list, and its row changes when it is cancelled", async ({ console, page }) => {
  await console.open("/executions", "Executions");
  await expect(page.getByRole("status", { name: "List" })).toHaveText("Live");
  const id = await idle(console.url);
  await expect(rowOf(page, id)).toContainText("Pending");
  const cancel = `mutation ($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled } }`;
  await graphql(console.url, cancel, { id });
  await expect(rowOf(page, id)).toContainText("Cancelled");
});

test("the server filters the list, the filter is in the address, and a saved view brings it back", async ({ console, page }) => {
  const parent = await idle(console.url);
  await console.open(`/executions?path=${PATH}&statuses=PENDING`, "Executions");
  await expect(rowOf(page, parent)).toBeVisible();
  await page.getByLabel("Started by").fill(parent);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`parent=${parent}`));
  await expect(page.getByText("No execution matches the filter")).toBeVisible();
  await expect(page.getByRole("status", { name: "List" })).toHaveText("Live");

  await page.getByRole("button", { name: "Saved views" }).click();
  await page.getByLabel("Name of the current filter").fill("Children");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(rowOf(page, parent)).toBeVisible();
  await page.reload();
  await page.getByRole("button", { name: "Saved views (1)" }).click();
  await page.getByRole("link", { name: "Children" }).click();
  await expect(page).toHaveURL(new RegExp(`parent=${parent}`));
});

test("cancelling by filter first shows what would be cancelled", async ({ console, page }) => {
  const parent = await idle(console.url);
  const { execute: child } = await graphql<{ execute: { executionId: string } }>(
    console.url,
    `mutation ($parent: ID!) {
      execute(input: { entry: { path: "${PATH}" }, parentExecutionId: $parent, executionPool: "no-worker" }) { executionId }
    }`,
    { parent },
  );
  await console.open(`/executions?parent=${parent}`, "Executions");
  await page.getByRole("button", { name: "Cancel filtered…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("status")).toHaveText("1 would be changed, 0 would be refused.");
  await expect(dialog.getByRole("cell", { name: new RegExp(child.executionId) })).toBeVisible();
  await dialog.getByLabel("Reason").fill("Not needed");
  await dialog.getByRole("button", { name: "Cancel executions (1)" }).click();
  await expect(dialog.getByRole("status")).toHaveText("1 changed, 0 refused.");
  await dialog.getByRole("button", { name: "Close", exact: true }).first().click();
  await expect(rowOf(page, child.executionId)).toContainText("Cancelled");

  await console.open(`/executions/${parent}?tab=children`, PATH);
  await expect(page.getByRole("list", { name: `Executions started by ${parent}` })).toContainText(child.executionId);
});

test("an execution shows its steps while they change, and the state after an earlier event", async ({ console, page }) => {
  const id = await idle(console.url);
  await console.open(`/executions/${id}`, PATH);
  await expect(page.getByRole("status", { name: "Live updates" })).toHaveText("Live");
  const diagram = page.getByRole("group", { name: "Flow diagram of the steps" });
  await expect(diagram.getByRole("button", { name: "charge" })).toContainText("Not reached");

  await report(console.url, id, FAILED_STEP);
  await expect(diagram.getByRole("button", { name: "charge" })).toContainText("Failed");
  await expect(page.getByRole("alert").filter({ hasText: "The execution failed" })).toContainText("no answer");
  await expect(page.getByRole("table", { name: "Steps" })).toContainText("no answer");

  const history = page.getByRole("region", { name: "History" });
  await expect(history.getByRole("status")).toContainText("Event 5 of 5");
  await history.getByRole("button", { name: "Earlier event" }).click();
  await expect(diagram.getByRole("button", { name: "charge" })).toContainText("Running");
  await expect(page).toHaveURL(/at=\d+/);
  await page.reload();
  await expect(diagram.getByRole("button", { name: "charge" })).toContainText("Running");
  await history.getByRole("button", { name: "Newest" }).click();
  await expect(diagram.getByRole("button", { name: "charge" })).toContainText("Failed");

  await page.getByRole("tab", { name: "Timeline" }).click();
  await expect(page.getByRole("region", { name: "Timeline of the steps" })).toContainText("charge");
  await page.getByRole("tab", { name: "Events" }).click();
  await expect(page.getByRole("table", { name: "Events of the execution" })).toContainText("command.failed");
});

test("an execution shows its trace id, which can be copied, and the attempts of its steps", async ({ console, page }) => {
  const traceId = crypto.randomUUID().replaceAll("-", "");
  const { execute: payload } = await graphql<{ execute: { executionId: string } }>(
    console.url,
    `mutation ($trace: TraceContextInput) {
      execute(input: { entry: { path: "${PATH}" }, executionPool: "no-worker", trace: $trace }) { executionId }
    }`,
    { trace: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` } },
  );
  const { executionId: id } = payload;
  const again = { command_id: "charge:2", attempt: 2 };
  await report(console.url, id, [
    ...FAILED_STEP,
    { type: "command.issued", nodeName: "charge", status: "PENDING", meta: again },
    { type: "command.started", nodeName: "charge", status: "STARTED", meta: again },
  ]);
  await console.open(`/executions/${id}`, PATH);
  await expect(page.getByText(traceId)).toBeVisible();
  await page.getByRole("button", { name: "Copy trace id" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(traceId);
  await expect(page.getByRole("table", { name: "Steps" }).getByRole("row", { name: /^charge/ })).toContainText("attempt 2");
  await page.getByRole("tab", { name: "Timeline" }).click();
  await expect(page.getByRole("region", { name: "Timeline of the steps" })).toContainText("2 attempts");
});

test("all steps of a long execution are shown, up to 1,000, and the page says that there are more", async ({ console, page }) => {
  const id = await idle(console.url);
  const enter = (first: number, count: number) =>
    Array.from({ length: count }, (_, index) => ({ type: "step.enter", nodeName: `step-${first + index}`, status: "ENTERED" }));
  await report(console.url, id, enter(0, 249));
  await report(console.url, id, [{ type: "step.enter", nodeName: "last", status: "ENTERED" }]);
  await console.open(`/executions/${id}`, PATH);
  const table = page.getByRole("table", { name: "Steps" });
  await expect(table.getByRole("row")).toHaveCount(101);
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByRole("button", { name: "Load more" }).click();
  await expect(table.getByRole("row", { name: /^last/ })).toBeVisible();
  await expect(page.getByText("The execution has more steps.")).toHaveCount(0);
  await page.getByRole("tab", { name: "Timeline" }).click();
  const timeline = page.getByRole("region", { name: "Timeline of the steps" });
  await expect(timeline.getByRole("listitem")).toHaveCount(250);

  for (const first of [249, 499, 749]) {
    await report(console.url, id, enter(first, 250));
  }
  await report(console.url, id, enter(999, 10));
  await expect(timeline.getByRole("listitem")).toHaveCount(1_000);
  await page.getByRole("tab", { name: "Flow" }).click();
  await expect(page.getByText("The execution has more steps. The page shows the first 1,000")).toBeVisible();
});

test("an execution is cancelled with a reason", async ({ console, page }) => {
  const id = await idle(console.url);
  await console.open(`/executions/${id}`, PATH);
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.getByLabel("Reason").fill("Wrong order");
  await page.getByRole("button", { name: "Cancel execution" }).click();
  await expect(page.getByRole("alert").filter({ hasText: "The execution was cancelled" })).toContainText("Wrong order");
  await expect(page.getByRole("button", { name: "Cancel…" })).toHaveAttribute("aria-disabled", "true");
});

test("two runs of a path are compared side by side", async ({ console, page }) => {
  const [left, right] = [await idle(console.url, { currency: "EUR" }), await idle(console.url, { currency: "USD" })];
  await report(console.url, left, FAILED_STEP);
  await console.open(`/executions/${left}?compare=${right}`, PATH);
  const steps = page.getByRole("table", { name: "Steps of both runs" });
  await expect(steps.getByRole("row", { name: /^charge/ })).toContainText("Not reached");
  await expect(page.getByRole("table", { name: "Differences: Input" }).getByRole("row", { name: /^currency/ })).toContainText(
    /"EUR".*"USD"/,
  );
});

test("an unknown id says so", async ({ console, page }) => {
  await page.goto(`${console.url}/executions/12345678901`);
  await expect(page.getByText("There is no execution with this id")).toBeVisible();
});

test("a completed execution says how many of its steps have failed", async ({ console, page }) => {
  const id = await idle(console.url);
  await report(console.url, id, [...FAILED_STEP, { type: "playbook.completed", status: "COMPLETED" }]);
  await console.open("/executions", "Executions");
  await expect(rowOf(page, id)).toContainText("Completed");
  await expect(rowOf(page, id)).toContainText("1 failed step");
  await console.open(`/executions/${id}`, PATH);
  await expect(page.getByRole("main").getByText("1 failed step", { exact: true })).toBeVisible();
});

test("an execution and its rerun link to each other", async ({ console, page }) => {
  const origin = await idle(console.url);
  const { rerunExecution } = await graphql<{ rerunExecution: { executionId: string } }>(
    console.url,
    `mutation ($id: ID!) { rerunExecution(input: { executionId: $id }) { executionId } }`,
    { id: origin },
  );
  await console.open(`/executions/${origin}`, PATH);
  const main = page.getByRole("main");
  await main.getByRole("link", { name: rerunExecution.executionId }).click();
  await expect(page).toHaveURL(new RegExp(`/executions/${rerunExecution.executionId}`));
  await expect(main.getByText("Rerun of")).toBeVisible();
  await main.getByRole("link", { name: origin }).click();
  await expect(page).toHaveURL(new RegExp(`/executions/${origin}`));
});

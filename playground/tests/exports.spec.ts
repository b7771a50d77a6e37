import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import type { Page } from "@playwright/test";

import { execute, graphql, idle, INBOX, report } from "./api";
import { expect, test } from "./console";
import { activeInbox } from "./inbox";

const PATH = "samples/orders/process";

/** Chooses a format in the menu, and returns the text of the saved file. */
async function exported(page: Page, format: string, button?: string): Promise<{ text: string; name: string }> {
  const saved = page.waitForEvent("download");
  await choose(page, format, button);
  const download = await saved;
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("status")).toContainText(download.suggestedFilename());
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  await expect(dialog).toBeHidden();
  return { text: await readFile(await download.path(), "utf8"), name: download.suggestedFilename() };
}

async function choose(page: Page, item: string, button = "Export"): Promise<void> {
  await page.getByRole("button", { name: button, exact: true }).click();
  await page.getByRole("menuitem", { name: item }).click();
}

test("a list of several pages is saved as CSV and as JSON lines, and its request is copied as curl", async ({ console, page }) => {
  const parent = await execute(console.url);
  const requests = Array.from({ length: 120 }, () => ({
    entry: { path: PATH },
    parentExecutionId: parent,
    executionPool: "no-worker",
  }));
  const { executeBatch } = await graphql<{ executeBatch: { results: { executionId: string }[] } }>(
    console.url,
    `mutation ($requests: [ExecuteInput!]!) { executeBatch(input: { requests: $requests }) { results { executionId } } }`,
    { requests },
  );
  const ids = executeBatch.results.map(({ executionId }) => executionId).toSorted();
  await console.open(`/executions?parent=${parent}`, "Executions");

  const csv = await exported(page, "CSV");
  expect(csv.name).toMatch(/^executions-.*\.csv$/);
  const [header, ...rows] = csv.text.split("\r\n").slice(0, -1);
  expect(header).toMatch(/^id,path,status,.*,parent\.execution\.id,parent\.subscription\.id$/);
  expect(rows.map((row) => row.split(",")[0]).toSorted()).toEqual(ids);
  expect(rows[0]).toContain(`,${PATH},PENDING,`);
  expect(rows[0]).toMatch(new RegExp(`,${parent},$`));

  const lines = (await exported(page, "JSON lines")).text.trimEnd().split("\n");
  const objects = lines.map((line) => JSON.parse(line) as { id: string; parent: { execution: { id: string } } });
  expect(objects.map(({ id }) => id).toSorted()).toEqual(ids);
  expect(objects[0]?.parent.execution.id).toBe(parent);

  await choose(page, "Copy as curl");
  await expect(page.getByRole("menuitem", { name: "Copied" })).toBeVisible();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  const env = { ...process.env, TOKEN: "none", NO_PROXY: "*" };
  const reply = JSON.parse(execFileSync("sh", ["-c", command], { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  expect(reply.data.executions.nodes).toHaveLength(50);
  expect(ids).toContain(reply.data.executions.nodes[0].id);
});

const LISTS = [
  { title: "Catalog", name: "catalog", header: "id,path,version," },
  { title: "Outbox", name: "outbox", header: "entryId,status,statusText,subject," },
  { title: "Subscriptions", name: "subscriptions", header: "id,path,status," },
];

test("the lists of the catalog, the outbox and the subscriptions are saved as CSV", async ({ console, page }) => {
  await execute(console.url);
  await console.open("/system", "System");
  for (const { title, name, header } of LISTS) {
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: title, exact: true }).click();
    await expect(console.title).toHaveText(title);
    const csv = await exported(page, "CSV");
    expect(csv.name).toMatch(new RegExp(`^${name}-.*\\.csv$`));
    expect(csv.text.slice(0, header.length)).toBe(header);
  }
});

test("the executions of a subscription, the actions of callers and the listed events are saved as CSV", async ({ console, page }) => {
  const source = await activeInbox(console.url);
  const { execute: child } = await graphql<{ execute: { executionId: string } }>(
    console.url,
    `mutation ($input: ExecuteInput!) { execute(input: $input) { executionId } }`,
    { input: { entry: { path: PATH }, parentExecutionId: source, executionPool: "no-worker" } },
  );
  const { rerunExecution: rerun } = await graphql<{ rerunExecution: { executionId: string } }>(
    console.url,
    `mutation ($id: ID!) { rerunExecution(input: { executionId: $id, executionPool: "no-worker" }) { executionId } }`,
    { id: child.executionId },
  );
  const linesOf = ({ text }: { text: string }) => text.trimEnd().split("\r\n");
  await console.open(`/subscriptions/${source}`, INBOX);
  const executions = await exported(page, "CSV");
  expect(executions.name).toMatch(new RegExp(`^executions-${source}-`));
  expect(linesOf(executions)[0]).toBe("id,path,status,startedAt,endedAt,error");
  expect(executions.text).toContain(`\r\n${child.executionId},${PATH},PENDING,`);

  await console.open(`/audit?find=${child.executionId}`, "Audit");
  expect(linesOf(await exported(page, "CSV", "Export changes"))).toEqual(["at,actor,action,kind,objectId,path,reason,origin"]);
  const [, ...reruns] = linesOf(await exported(page, "CSV", "Export reruns"));
  expect(reruns).toHaveLength(1);
  expect(reruns[0]).toMatch(new RegExp(`,Rerun,execution,${rerun.executionId},${PATH},,${child.executionId}$`));
  // The server identifies no caller. The page names the user as it names the callers.
  await expect(page.getByRole("row").filter({ hasText: rerun.executionId })).toContainText("Not identified");
  await expect(page.getByRole("button", { name: "User and settings" })).toHaveText("Not identified");
  await console.open("/audit?action=activated", "Audit");
  expect((await exported(page, "CSV")).text).toContain(`,Activated,subscription,${source},${INBOX},`);

  await console.events.open(`?executions=${child.executionId}&from=beginning`);
  await console.events.filter("Find in the list", "playbook_started");
  await expect(console.events.rows).toHaveCount(1);
  const events = linesOf(await exported(page, "CSV"));
  expect(events[0]).toBe("eventId,executionId,type,nodeName,status,createdAt,shard,error");
  expect(events.slice(1)).toEqual([expect.stringContaining(`,${child.executionId},playbook_started,`)]);
});

test("all events of an execution are saved as JSON lines", async ({ console, page }) => {
  const id = await idle(console.url, PATH);
  await report(console.url, id, Array.from({ length: 120 }, () => ({ type: "test.noted", nodeName: "start", context: { note: 1 } })));
  const { execution } = await graphql<{ execution: { eventCount: string } }>(
    console.url,
    `query ($id: ID!) { execution(id: $id) { eventCount } }`,
    { id },
  );
  await console.open(`/executions/${id}?tab=events`, PATH);
  const { text, name } = await exported(page, "JSON lines");
  expect(name).toMatch(new RegExp(`^events-${id}-.*\\.jsonl$`));
  const events = text.trimEnd().split("\n").map((line) => JSON.parse(line) as { eventId: string; context: unknown });
  expect(new Set(events.map(({ eventId }) => eventId)).size).toBe(Number(execution.eventCount));
  expect(events).toHaveLength(Number(execution.eventCount));
  expect(events.at(-1)?.context).toEqual({ note: 1 });
});

/** Returns whether a request reads a page of an export. */
function isExport(body: unknown): boolean {
  return (body as { variables?: { first?: number } } | null)?.variables?.first === 100;
}

test("an export of a longer list ends after 10,000 rows and says so", async ({ console, page }) => {
  const node = { id: "1", path: PATH, status: "PENDING", statusText: "PENDING", progress: null, parent: null };
  const pageInfo = { hasNextPage: true, endCursor: "next" };
  const executions = { nodes: Array.from({ length: 1_000 }, () => node), pageInfo, unavailableShards: [1] };
  await page.route("**/graphql", async (route) => {
    const json = { data: { executions }, errors: [{ message: "The labels can't be read." }] };
    await (isExport(route.request().postDataJSON()) ? route.fulfill({ json }) : route.continue());
  });
  await console.open("/executions", "Executions");
  const saved = page.waitForEvent("download");
  await choose(page, "CSV");
  const text = await readFile(await (await saved).path(), "utf8");
  expect(text.trimEnd().split("\r\n")).toHaveLength(10_001);
  const dialog = page.getByRole("dialog", { name: "Export executions as CSV" });
  await expect(dialog.getByRole("status")).toContainText(/^10,000 rows are in .*\. The list has more/);
  await expect(dialog.getByRole("alert")).toContainText("The database of shard 1 can't be read now.");
  await expect(dialog.getByText("The labels can't be read.")).toHaveCount(1);
});

test("a cancelled export sends no further request and saves nothing", async ({ console, page }) => {
  let downloads = 0;
  page.on("download", () => (downloads += 1));
  // The server never responds to the first page.
  await page.route("**/graphql", (route) => (isExport(route.request().postDataJSON()) ? undefined : route.continue()));
  await console.open("/executions", "Executions");
  await choose(page, "JSON lines");
  const dialog = page.getByRole("dialog", { name: "Export executions as JSON lines" });
  await expect(dialog.getByRole("status")).toHaveText("0 rows read, of at most 10,000.");
  const aborted = page.waitForEvent("requestfailed", (request) => isExport(request.postDataJSON()));
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await aborted;
  await expect(dialog).toBeHidden();
  expect(downloads).toBe(0);
});

import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, type Page } from "@playwright/test";

import { graphql, idle, INBOX, PROCESS } from "./api";
import { Console } from "./console";
import { BINARY, startControlPlane, type ControlPlane } from "./control_plane";
import { deadLetters } from "./dead_letters";
import { activeInbox } from "./inbox";
import { Task } from "./task";

let controlPlane: ControlPlane;
/** Tokens of an operator, who is shown as `ann`, and of a worker. */
let ann: string;
let worker: string;

test.beforeAll(async () => {
  const tokens = join(mkdtempSync(join(tmpdir(), "noetl-tokens-")), "tokens");
  writeFileSync(tokens, "");
  const newToken = (role: string, subject: string) =>
    execFileSync(BINARY, ["token", "new", "--role", role, "--subject", subject, "--file", tokens], { encoding: "utf8" }).trim();
  [ann, worker] = [newToken("operator", "ann"), newToken("worker", "runtime")];
  controlPlane = await startControlPlane({ NOETL_AUTH_TOKENS: tokens });
});

test.afterAll(async () => {
  await controlPlane?.stop();
});

test("who deactivated a subscription and why is one click from the overview, and its page two", async ({ page }) => {
  const id = await activeInbox(controlPlane.url, ann);
  await graphql(
    controlPlane.url,
    `mutation ($id: ID!) { deactivateSubscription(input: { subscriptionId: $id, reason: "The source moves" }) { userErrors { code } } }`,
    { id },
    ann,
  );
  const title = await openOverview(page);
  const task = new Task();
  await task.act(openAudit(page));
  const row = rowOf(page, id).filter({ hasText: "Deactivated" });
  await expect(row).toContainText("ann");
  await expect(row).toContainText(INBOX);
  await expect(row).toContainText("The source moves");
  expect(task.count).toBe(1);
  await task.act(row.getByRole("link", { name: id }).click());
  await expect(title).toHaveText(INBOX);
  const history = page.getByRole("region", { name: "History" });
  await expect(history.getByText("The source moves")).toBeVisible();
  await expect(history.getByText("by ann").first()).toBeVisible();
  expect(task.count).toBe(2);
});

test("cancellations, retried and discarded deliveries are listed with caller and reason, and the execution shows both, and who ran it again", async ({ page }) => {
  // They are made first, so that they belong to none of the other executions of this test.
  const [letter, discarded] = await deadLetters(controlPlane.url, 2, "The broker refused the message", worker);
  const cancelled = await idle(controlPlane.url, PROCESS, { token: worker });
  const other = await idle(controlPlane.url, PROCESS, { token: worker });
  const cancel = `mutation ($id: ID!, $reason: String!) { cancelExecution(input: { executionId: $id, reason: $reason }) { cancelled } }`;
  await graphql(controlPlane.url, cancel, { id: cancelled, reason: "Wrong price" }, ann);
  await graphql(controlPlane.url, cancel, { id: other, reason: "Not needed" }, ann);
  const { rerunExecution } = await graphql<{ rerunExecution: { executionId: string } }>(
    controlPlane.url,
    `mutation ($id: ID!) { rerunExecution(input: { executionId: $id, executionPool: "no-worker" }) { executionId } }`,
    { id: cancelled },
    worker,
  );
  const retry = `mutation ($id: ID!) { retryOutbox(input: { select: { ids: [$id] }, reason: "The broker is back" }) { retried } }`;
  await graphql(controlPlane.url, retry, { id: letter!.id }, ann);
  const discard = `mutation ($id: ID!) { discardOutbox(input: { select: { ids: [$id] }, reason: "Sent by hand" }) { discarded } }`;
  await graphql(controlPlane.url, discard, { id: discarded!.id }, ann);
  const title = await openOverview(page);
  await openAudit(page);
  const retried = rowOf(page, letter!.executionId).filter({ hasText: "Retried delivery" });
  for (const text of ["ann", PROCESS, "The broker is back"]) {
    await expect(retried).toContainText(text);
  }
  const discardedRow = rowOf(page, discarded!.executionId).filter({ hasText: "Discarded delivery" });
  await expect(discardedRow).toContainText("Sent by hand");
  await discardedRow.getByRole("link", { name: discarded!.executionId }).click();
  await expect(title).toHaveText(PROCESS);
  await expect(page.getByRole("alert").filter({ hasText: "The delivery was discarded by ann" })).toContainText("Sent by hand");
  await page.goBack();
  const row = rowOf(page, cancelled).filter({ hasText: "Cancelled" });
  await expect(row).toHaveCount(1);
  const rerun = rowOf(page, rerunExecution.executionId).filter({ hasText: "Rerun" });
  for (const text of ["runtime", PROCESS, cancelled]) {
    await expect(rerun).toContainText(text);
  }
  for (const text of ["ann", "Cancelled", PROCESS, "Wrong price"]) {
    await expect(row).toContainText(text);
  }
  await page.getByRole("textbox", { name: "Find in the list" }).fill("wrong price");
  await page.keyboard.press("Enter");
  await expect(rowOf(page, other)).toHaveCount(0);
  await expect(row).toBeVisible();
  await row.getByRole("link", { name: cancelled }).click();
  await expect(title).toHaveText(PROCESS);
  const report = page.getByRole("alert").filter({ hasText: "The execution was cancelled by ann" });
  await expect(report).toContainText("Wrong price");
  await expect(page.getByRole("main").getByText("runtime", { exact: true })).toBeVisible();
  await expect(page.getByRole("definition").filter({ hasText: rerunExecution.executionId })).toContainText("by runtime");
});

test("the page of a catalog entry names who registered and who retired it", async ({ page }) => {
  const register = `mutation { registerCatalogEntry(input: { path: "audit/entry", content: "kind: playbook" }) { catalogEntry { catalogId } } }`;
  const { registerCatalogEntry } = await graphql<{ registerCatalogEntry: { catalogEntry: { catalogId: string } } }>(
    controlPlane.url,
    register,
    {},
    ann,
  );
  const archive = `mutation ($id: ID!) { archiveCatalogEntry(input: { catalogId: $id }) { userErrors { code } } }`;
  await graphql(controlPlane.url, archive, { id: registerCatalogEntry.catalogEntry.catalogId }, ann);
  await openOverview(page);
  await page.goto(`${controlPlane.url}/catalog/audit/entry?version=1`);
  await expect(page.getByRole("region", { name: "Entry", exact: true })).toContainText(/Registered.* by ann.*Retired.* by ann/);
  await expect(page.getByRole("region", { name: "Versions" }).getByRole("listitem")).toContainText("by ann");
});

test("registrations and retirements of catalog entries are listed with their caller, last first, and can be chosen", async ({ page }) => {
  const path = "audit/versions";
  const register = `mutation { registerCatalogEntry(input: { path: "${path}", content: "kind: playbook" }) { catalogEntry { catalogId } } }`;
  const registered = () =>
    graphql<{ registerCatalogEntry: { catalogEntry: { catalogId: string } } }>(controlPlane.url, register, {}, ann);
  const { registerCatalogEntry: first } = await registered();
  await registered();
  const archive = `mutation ($id: ID!) { archiveCatalogEntry(input: { catalogId: $id }) { userErrors { code } } }`;
  await graphql(controlPlane.url, archive, { id: first.catalogEntry.catalogId }, ann);
  await openOverview(page);
  await openAudit(page);
  const rows = rowOf(page, path);
  const [retired, second, registration] = [/ann.*Retired entry.*Version 1/, /ann.*Registered entry.*Version 2/, /ann.*Registered entry.*Version 1/];
  await expect(rows).toHaveText([retired, second, registration]);

  await page.getByRole("combobox", { name: "Action" }).click();
  await page.getByRole("option", { name: "Registered entry", exact: true }).click();
  await expect(page).toHaveURL(/action=registered-entry/);
  await expect(rows).toHaveText([second, registration]);
  await page.getByRole("combobox", { name: "Action" }).click();
  await page.getByRole("option", { name: "Retired entry", exact: true }).click();
  await page.getByRole("textbox", { name: "Path" }).fill(path);
  await page.keyboard.press("Enter");
  const table = page.getByRole("table", { name: "Actions" });
  await expect(table.getByRole("row")).toHaveCount(2);
  await expect(rows).toHaveText([retired]);
  await rows.getByRole("link", { name: "Version 1", exact: true }).click();
  await expect(page).toHaveURL(/\/catalog\/audit\/versions\?version=1/);
});

test("the server filters the actions, and starts that are no reruns are listed only if they are chosen", async ({ page }) => {
  const first = await idle(controlPlane.url, PROCESS, { token: worker });
  const { rerunExecution } = await graphql<{ rerunExecution: { executionId: string } }>(
    controlPlane.url,
    `mutation ($id: ID!) { rerunExecution(input: { executionId: $id, executionPool: "no-worker" }) { executionId } }`,
    { id: first },
    worker,
  );
  await activeInbox(controlPlane.url, ann);
  await openOverview(page);
  await openAudit(page);
  const table = page.getByRole("table", { name: "Actions" });
  await expect(table.getByRole("cell", { name: "Activated", exact: true }).first()).toBeVisible();
  await expect(table.getByRole("cell", { name: "Started", exact: true })).toHaveCount(0);

  await page.getByRole("combobox", { name: "Action" }).click();
  await page.getByRole("option", { name: "Rerun", exact: true }).click();
  await expect(page).toHaveURL(/action=rerun/);
  await expect(rowOf(page, rerunExecution.executionId).getByRole("link", { name: first })).toBeVisible();
  await expect(table.getByRole("cell", { name: "Activated", exact: true })).toHaveCount(0);

  await page.getByRole("combobox", { name: "Action" }).click();
  await page.getByRole("option", { name: "Started", exact: true }).click();
  await expect(page).toHaveURL(/action=started/);
  const rerun = table.getByRole("row").filter({ hasText: rerunExecution.executionId });
  await expect(rerun.getByRole("cell", { name: "Rerun", exact: true })).toBeVisible();
  await expect(rerun).toContainText("runtime");
  await expect(rerun.getByRole("link", { name: first })).toBeVisible();
  await expect(table.getByRole("cell", { name: "Activated", exact: true })).toHaveCount(0);

  await page.getByRole("textbox", { name: "Path" }).fill("samples/none");
  await page.keyboard.press("Enter");
  await expect(page.getByText("No action is listed")).toBeVisible();
});

test("the actions are read again each 5 s, but not while more than one page is loaded", async ({ page }) => {
  let sent = 0;
  await page.route("**/graphql", async (route) => {
    const { query, variables } = route.request().postDataJSON() as { query: string; variables?: { after?: string } };
    if (!query.includes("query AuditLog")) {
      return route.continue();
    }
    sent += 1;
    const id = variables?.after ?? "1";
    const node = { id, executionId: id, type: "playbook.cancelled", nodeName: PROCESS, createdAt: new Date().toISOString() };
    const pageInfo = { hasNextPage: true, endCursor: "2" };
    const events = { nodes: [{ ...node, meta: { actor: "ann" }, context: null }], pageInfo, unavailableShards: [] };
    return route.fulfill({ json: { data: { events } } });
  });
  await page.clock.install();
  await openOverview(page);
  await openAudit(page);
  const rows = page.getByRole("table", { name: "Actions" }).getByRole("row");
  await expect(rows).toHaveCount(2);
  const first = sent;
  await page.clock.fastForward("00:06");
  await expect.poll(() => sent).toBeGreaterThan(first);

  await page.getByRole("button", { name: "Load more" }).click();
  await expect(rows).toHaveCount(3);
  const loaded = sent;
  await page.clock.fastForward("01:00");
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  expect(sent).toBe(loaded);
});

/** Opens the overview, signs in as ann, and returns the title of the page. */
async function openOverview(page: Page) {
  await page.goto(controlPlane.url);
  const dialog = page.getByRole("dialog", { name: "Sign in" });
  await dialog.getByLabel("Token", { exact: true }).fill(ann);
  await page.keyboard.press("Enter");
  await expect(dialog).toBeHidden();
  const { title } = new Console(page, controlPlane.url);
  await expect(title).toHaveText("Overview");
  return title;
}

/** Opens the audit with one click. */
async function openAudit(page: Page): Promise<void> {
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Audit" }).click();
  await expect(new Console(page, controlPlane.url).title).toHaveText("Audit");
}

/** Returns the rows of an object that have its id or its path. */
function rowOf(page: Page, id: string) {
  return page.getByRole("table", { name: "Actions" }).getByRole("row").filter({ hasText: id });
}

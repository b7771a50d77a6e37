import { expectPartAccessible, MODAL } from "./accessibility";
import { graphql } from "./api";
import { expect, test } from "./console";
import { Task } from "./task";

const REGISTER = `
  mutation ($content: String!) {
    registerCatalogEntry(input: { content: $content }) { catalogEntry { version } userErrors { message } }
  }
`;

function playbook(path: string, description: string): string {
  return `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: test\n  path: ${path}\n  description: ${description}\nworkflow:\n  - step: start\n    tool: { kind: noop }\n`;
}

function freshPath(): string {
  return `tests/catalog/${crypto.randomUUID()}`;
}

async function register(url: string, path: string, ...descriptions: string[]): Promise<void> {
  for (const description of descriptions) {
    await graphql(url, REGISTER, { content: playbook(path, description) });
  }
}

/** Runs an execution of a path whose steps take these times in seconds, as a worker reports them. Returns its id. */
async function run(url: string, path: string, steps: Record<string, number>, failed?: string): Promise<string> {
  const { execute } = await graphql<{ execute: { executionId: string } }>(
    url,
    `mutation ($path: String!) { execute(input: { entry: { path: $path }, executionPool: "no-worker" }) { executionId } }`,
    { path },
  );
  let at = Date.now();
  const events: object[] = [];
  for (const [nodeName, seconds] of Object.entries(steps)) {
    events.push({ type: "step.enter", nodeName, status: "ENTERED", createdAt: new Date(at).toISOString() });
    at += seconds * 1000;
    const end = nodeName === failed ? { type: "command.failed", status: "FAILED", error: "no answer" } : { type: "command.completed" };
    events.push({ ...end, nodeName, createdAt: new Date(at).toISOString() });
  }
  events.push({ type: "playbook.completed", status: "COMPLETED", createdAt: new Date(at).toISOString() });
  const { reserveEventIds } = await graphql<{ reserveEventIds: { eventIds: string[] } }>(
    url,
    `mutation ($count: Int!) { reserveEventIds(input: { count: $count }) { eventIds } }`,
    { count: events.length },
  );
  const { executionId } = execute;
  const { projectEvents } = await graphql<{ projectEvents: { projected: number } }>(
    url,
    `mutation ($events: [EventInput!]!) { projectEvents(input: { events: $events }) { projected } }`,
    { events: events.map((event, index) => ({ ...event, executionId, eventId: reserveEventIds.eventIds[index] })) },
  );
  expect(projectEvents.projected).toBe(events.length);
  return executionId;
}

test("the server filters the catalog by kind, path and text, and the filter is in the address", async ({ console, page }) => {
  await console.open("/catalog", "Catalog");
  const table = page.getByRole("table", { name: "Catalog entries" });
  await expect(table.getByRole("link", { name: "samples/orders/process" })).toBeVisible();
  await page.getByRole("combobox", { name: "Kind" }).click();
  await page.getByRole("option", { name: "Subscription" }).click();
  await expect(page).toHaveURL(/kind=SUBSCRIPTION/);
  await expect(table.getByRole("link", { name: "samples/orders/inbox" })).toBeVisible();
  await expect(table.getByRole("link", { name: "samples/orders/process" })).toHaveCount(0);

  await console.open("/catalog?prefix=samples/reports", "Catalog");
  await expect(table.getByRole("link")).toHaveText(["samples/reports/daily"]);
  await page.getByRole("textbox", { name: "Path or name contains" }).fill("no-such-entry");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/text=no-such-entry/);
  await expect(page.getByText("No entry matches the filter")).toBeVisible();
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(table.getByRole("link", { name: "samples/orders/process" })).toBeVisible();
});

test("an entry shows its document, its versions, and the difference of two versions", async ({ console, page }) => {
  const path = freshPath();
  await register(console.url, path, "first text", "second text");
  await console.open(`/catalog/${path}`, path);
  const content = page.getByRole("textbox", { name: "Content of version 2" });
  await expect(content).toContainText("second text");
  await page.getByRole("link", { name: "Version 1", exact: true }).click();
  await expect(page).toHaveURL(/version=1/);
  await expect(page.getByRole("textbox", { name: "Content of version 1" })).toContainText("first text");

  await page.getByRole("link", { name: "Compare version 2 with version 1" }).click();
  await expect(page).toHaveURL(/version=2&show=difference&with=1/);
  await expect(page.getByText("1 line removed, 1 line added.")).toBeVisible();
  const difference = page.getByRole("textbox", { name: "Difference from version 1 to version 2" });
  await expect(difference).toContainText("first text");
  await expect(difference).toContainText("second text");
});

test("the slowest step of a path is found with 3 clicks and keys, and the table leads to its runs", async ({ console, page }) => {
  const path = freshPath();
  await register(console.url, path, "first text");
  const slowest = await run(console.url, path, { load: 2, charge: 40 });
  const failed = await run(console.url, path, { load: 1, charge: 30 }, "charge");
  const ended = async () => {
    const query = `query ($path: String!) { stepStats(path: $path) { executions } }`;
    return (await graphql<{ stepStats: { executions: number } }>(console.url, query, { path })).stepStats.executions;
  };
  await expect.poll(ended).toBe(2);

  await console.open("/", "Overview");
  const task = new Task();
  await task.act(page.keyboard.press("ControlOrMeta+K"));
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("textbox")).toBeFocused();
  await task.act(page.keyboard.type(path));
  await task.act(dialog.getByRole("button", { name: `Catalog entry ${path}` }).click());
  const first = page.getByRole("table", { name: "Steps of the last executions" }).getByRole("row").nth(1);
  await expect(first).toContainText("96 %");
  await expect(first.getByRole("link", { name: "charge", exact: true })).toBeVisible();
  expect(task.count).toBe(3);

  await first.getByRole("link", { name: "charge", exact: true }).click();
  await expect(page).toHaveURL(new RegExp(`/executions/${slowest}\\?step=charge`));
  await page.goBack();
  await page.getByRole("link", { name: "1 failed: last failure of charge" }).click();
  await expect(page).toHaveURL(new RegExp(`/executions/${failed}\\?step=charge`));
});

test("a version is registered once, after the server found its document valid, and leads to its form of execution", async ({ console, page }) => {
  const path = freshPath();
  await register(console.url, path, "first text");
  await console.open(`/catalog/${path}?show=register`, path);
  const check = page.getByRole("status", { name: "Check of the document" });
  const button = page.getByRole("button", { name: "Register", exact: true });
  await expect(check).toContainText(`Valid: playbook ${path}, 1 step`);

  // The server names the line of a mistake, and the message leads to it.
  const editor = page.getByRole("textbox", { name: "Document in YAML or JSON" });
  await editor.fill(playbook(path, "a: b: c"));
  await expect(check).toContainText("The document can't be registered.");
  await expect(page.getByText(/line 6 column/).first()).toBeVisible();
  await expect(page.locator(".cm-lint-marker-error")).toHaveCount(1);
  await expect(button).toHaveAttribute("aria-disabled", "true");
  await page.getByRole("button", { name: "Show the place" }).click();
  await expect(editor).toBeFocused();

  await editor.fill(playbook(path, "second text"));
  await expect(check).toContainText("Valid");
  await button.click();
  await expect(page).toHaveURL(/\?version=2$/);
  await expect(page.getByRole("textbox", { name: "Content of version 2" })).toContainText("second text");

  await page.getByRole("button", { name: "Register a version" }).click();
  await button.click();
  await expect(page.getByText("Nothing was registered: the newest version has the same content.")).toBeVisible();
  await page.getByRole("button", { name: "Execute" }).click();
  await expect(page).toHaveURL(new RegExp(`/execute\\?path=${encodeURIComponent(path)}`));
});

test("a retired version leaves the list until it is restored", async ({ console, page }) => {
  const path = freshPath();
  await register(console.url, path, "first text");
  await console.open(`/catalog/${path}`, path);
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Retire…" }).click();
  await expectPartAccessible(page, "retire", MODAL);
  await dialog.getByRole("button", { name: "Retire", exact: true }).click();
  await expect(page).toHaveURL(/\?version=1$/);
  await expect(page.getByText("(no version is in use)")).toBeVisible();
  await expect(page.getByRole("button", { name: "Restore…" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Execute" })).toHaveAttribute("aria-disabled", "true");

  await console.open(`/catalog?prefix=${path}`, "Catalog");
  await expect(page.getByText("No entry matches the filter")).toBeVisible();
  await page.getByRole("switch", { name: "Retired too" }).click();
  await expect(page).toHaveURL(/retired=too/);
  await expect(page.getByRole("table", { name: "Catalog entries" }).getByText("Retired", { exact: true })).toBeVisible();

  await page.getByRole("link", { name: path }).click();
  await page.getByRole("button", { name: "Restore…" }).click();
  await dialog.getByRole("button", { name: "Restore", exact: true }).click();
  await expect(page.getByText("(newest)")).toBeVisible();
  await expect(page.getByRole("button", { name: "Retire…" })).toBeVisible();
});

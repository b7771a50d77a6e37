import { graphql, INBOX, register, report, withoutInbox } from "./api";
import { executionRow, expect, test } from "./console";
import { activeInbox } from "./inbox";
import { Task } from "./task";

const NO_ANSWER = [
  { type: "step.enter", nodeName: "start", status: "ENTERED" },
  { type: "command.issued", nodeName: "start", status: "PENDING", meta: { command_id: "start:1", attempt: 1 } },
  { type: "command.started", nodeName: "start", status: "STARTED", meta: { command_id: "start:1", attempt: 1 } },
  { type: "command.failed", nodeName: "start", status: "FAILED", error: "no answer", meta: { command_id: "start:1", attempt: 1 } },
];

/** Returns a text that no other test has. */
function unique(): string {
  return crypto.randomUUID().replaceAll("-", "").slice(0, 12);
}

/** Registers a playbook whose executions have the id of their order as a label, and returns its path. */
async function orders(url: string): Promise<string> {
  const path = `tests/word${unique()}/orders`;
  const metadata = `{ name: test, path: ${path}, searchable: { order_id: "{{ workload.order.id }}" } }`;
  const head = `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: ${metadata}\n`;
  const content = `${head}workflow:\n  - step: start\n    tool: { kind: noop }\n`;
  await register(url, content);
  return path;
}

/** Starts an execution of an order, which no worker takes. */
async function start(url: string, path: string, order: string, more: object = {}): Promise<string> {
  const { execute: payload } = await graphql<{ execute: { executionId: string } }>(
    url,
    `mutation ($input: ExecuteInput!) { execute(input: $input) { executionId } }`,
    { input: { entry: { path }, executionPool: "no-worker", workload: { order: { id: order } }, ...more } },
  );
  return payload.executionId;
}

test("order 17 is found by its label in 3 clicks and keys, its error is 1 click away, and it runs again in 2", async ({
  console,
  page,
}) => {
  await page.setViewportSize({ width: 1440, height: 900 });
  const order = `17-${unique()}`;
  const path = await orders(console.url);
  const id = await start(console.url, path, order);
  await report(console.url, id, NO_ANSWER);
  await console.open("/", "Overview");
  const task = new Task();

  await task.act(page.keyboard.press("ControlOrMeta+K"));
  await expect(page.getByRole("dialog").getByRole("textbox")).toBeFocused();
  await task.act(page.keyboard.type(`order_id=${order}`));
  await task.act(page.keyboard.press("Enter"));
  await expect(console.title).toHaveText("Executions");
  await expect(executionRow(page, id)).toContainText("Failed");
  expect(task.count).toBe(3);

  await task.act(executionRow(page, id).getByRole("link", { name: id }).click());
  const error = page.getByRole("alert").filter({ hasText: "The execution failed" });
  await expect(error.getByText("no answer")).toHaveCount(1);
  await expect(error.getByRole("link", { name: "start" })).toBeVisible();
  await expect(error).toBeInViewport({ ratio: 1 });
  expect(task.count).toBe(4);

  await task.act(page.getByRole("button", { name: "Rerun…" }).click());
  await task.act(page.getByRole("dialog").getByRole("button", { name: "Rerun", exact: true }).click());
  const main = page.getByRole("main");
  await expect(main.getByText("Rerun of")).toBeVisible();
  await expect(main.getByRole("link", { name: `order_id=${order}` })).toBeVisible();
  expect(task.count).toBe(6);
});

test("the list is filtered by labels, also in bulk and by a saved view, and refuses malformed ones", async ({ console, page }) => {
  const word = unique();
  const path = await orders(console.url);
  const [first, second] = [await start(console.url, path, `17-${word}`), await start(console.url, path, `18 ${word}`)];
  await console.open(`/executions?path=${path}`, "Executions");
  await expect(page.locator(`input[title="${path}"]`)).toBeVisible();
  await expect(executionRow(page, first)).toBeVisible();
  await expect(executionRow(page, second)).toBeVisible();
  await page.getByLabel("Labels").fill(`order_id=17-${word}, order_id`);
  await page.keyboard.press("Enter");
  await expect(executionRow(page, second)).toHaveCount(0);
  await expect(executionRow(page, first)).toBeVisible();
  await expect(page.getByRole("status", { name: "List" })).toHaveText("Live");
  const filtered = new RegExp(`labels=order_id%3D17-${word}`);
  await expect(page).toHaveURL(filtered);

  await page.getByRole("button", { name: "Cancel filtered…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("status")).toHaveText("1 would be changed, 0 would be refused.");
  await expect(dialog.getByRole("cell", { name: new RegExp(first) })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(dialog).toHaveCount(0);

  await page.getByRole("button", { name: "Saved views" }).click();
  await page.getByLabel("Name of the current filter").fill("Order 17");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await page.getByRole("button", { name: "Saved views (1)" }).click();
  await page.getByRole("link", { name: "Order 17" }).click();
  await expect(page).toHaveURL(filtered);

  await console.open(`/executions?path=${path}`, "Executions");
  await executionRow(page, second).getByRole("link", { name: `order_id=18 ${word}` }).click();
  await expect(page.getByLabel("Labels")).toHaveValue(`order_id="18 ${word}"`);
  await expect(executionRow(page, first)).toHaveCount(0);
  await expect(executionRow(page, second)).toBeVisible();

  await page.getByLabel("Labels").fill("Order=17");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main").getByRole("alert").first()).toContainText("a label's name has 1 to 63 characters");
});

test("the command palette finds a dedup key, a value of a label, first digits, a day, a word of a path and an error", async ({ console, page }) => {
  const [order, key] = [unique(), crypto.randomUUID()];
  const path = await orders(console.url);
  const id = await start(console.url, path, order, { dedup: { key } });
  const error = `answer from ${order}`;
  await report(console.url, id, NO_ANSWER.map((event) => ("error" in event ? { ...event, error: `No ${error}` } : event)));
  await console.open("/", "Overview");
  await console.search(key);
  await expect(page.getByRole("button", { name: `Execution ${id}` })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(console.title).toHaveText(path);
  await expect(page.getByRole("main").getByText(key)).toBeVisible();

  for (const query of [`dedup=${key}`, `id=${id.slice(0, 12)}`]) {
    await console.open(`/executions?${query}`, "Executions");
    await expect(executionRow(page, id)).toBeVisible();
  }
  const { execution } = await graphql<{ execution: { startedAt: string } }>(
    console.url,
    `query ($id: ID!) { execution(id: $id) { startedAt } }`,
    { id },
  );
  const failed = `{ executions(filter: { errorContains: "${error}" }) { nodes { id } } }`;
  const listed = () => graphql<{ executions: { nodes: object[] } }>(console.url, failed);
  await expect.poll(async () => (await listed()).executions.nodes).toEqual([{ id }]);
  const day = `${new Date(execution.startedAt).toISOString().slice(0, 10)} UTC`;
  for (const [text, label, address] of [
    [order, `Executions with label order_id=${order}`, `labels=order_id%3D${order}`],
    [id.slice(0, 9), `Executions whose id begins with ${id.slice(0, 9)}`, `id=${id.slice(0, 9)}`],
    [day, `Executions that started ${day}`, "since="],
    [path.split("/")[1], `Executions of ${path}`, `path=`],
    [error, `Failed executions whose error contains ${error}`, "error="],
  ] as const) {
    await console.search(text ?? "");
    await page.getByRole("button", { name: label }).click();
    await expect(page).toHaveURL(new RegExp(address));
    await expect(executionRow(page, id)).toBeVisible();
  }
  await expect(page.getByLabel("Error contains")).toHaveValue(error);
});

test("the dedup key of an execution with a parent leads to it, and a missing key is explained", async ({ console, page }) => {
  const key = crypto.randomUUID();
  const path = await orders(console.url);
  const parent = await start(console.url, path, unique());
  const id = await start(console.url, path, unique(), { parentExecutionId: parent, dedup: { key } });
  await console.open(`/executions/${id}`, path);
  await page.getByRole("main").getByRole("link", { name: key }).click();
  await expect(page).toHaveURL(new RegExp(`dedup=${key}&parent=${parent}`));
  await expect(executionRow(page, id)).toBeVisible();

  const explanation = "The key of an execution that has a parent is found only with this parent. Keys expire.";
  await expect(page.getByLabel("Dedup key")).toHaveAttribute("title", explanation);
  await page.getByLabel("Parent").fill("");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main").getByText(explanation)).toBeVisible();
  await console.search(key);
  await expect(page.getByRole("dialog").getByText(/write name=value to search all labels.*with the field Parent/)).toBeVisible();

  await withoutInbox(console.url);
  const source = await activeInbox(console.url);
  const messageKey = crypto.randomUUID();
  const message = await start(console.url, path, unique(), { parentExecutionId: source, dedup: { key: messageKey } });
  await console.open(`/subscriptions/${source}`, INBOX);
  await page.getByRole("textbox", { name: "Dedup key" }).fill(messageKey);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`parent=${source}`));
  await expect(executionRow(page, message)).toBeVisible();

  // Each search for messages asks every subscription, so a slowly typed key is searched when it is complete. From its fourth
  // character on, each part of this one could be a key.
  const searched = new Set<string>();
  page.on("request", (request) => {
    const { query, variables } = (request.postDataJSON() ?? {}) as { query?: string; variables?: { key?: string } };
    if (query?.includes("query FindMessage") && variables?.key !== undefined) {
      searched.add(variables.key);
    }
  });
  await console.search("");
  await page.keyboard.type("17-order", { delay: 300 });
  await expect(page.getByRole("dialog").getByText("Nothing found")).toBeVisible();
  expect(searched).toContain("17-order");
  expect(searched.size).toBeLessThanOrEqual(2);
  await page.getByRole("dialog").getByRole("textbox").fill(messageKey);
  await page.getByRole("dialog").getByRole("button", { name: `Execution ${message}` }).click();
  await expect(console.title).toHaveText(path);
});

test("the command palette shows nothing of the text before, and says what its search for labels lacks", async ({ console, page }) => {
  const path = await orders(console.url);
  await start(console.url, path, unique());
  let recent = 0;
  await page.route("**/graphql", async (route) => {
    const { query, variables } = route.request().postDataJSON() as { query: string; variables?: { path?: string } };
    if (query.includes("query RecentLabels")) {
      recent += 1;
      const response = await route.fetch();
      const { data } = (await response.json()) as { data: object };
      return route.fulfill({ json: { data, errors: [{ message: "Some labels can't be read." }] } });
    }
    // The server never responds for the second path.
    return query.includes("query FindPath") && variables?.path === `${path}/none` ? undefined : route.continue();
  });
  await console.open("/", "Overview");
  await console.search(path);
  const palette = page.getByRole("dialog");
  await expect(palette.getByRole("button", { name: /^Execution \d/ })).toBeVisible();
  await expect(palette.getByText("Some labels can't be read.")).toHaveCount(1);
  await palette.getByRole("textbox").fill(`${path}/none`);
  await expect(palette.getByRole("button", { name: /^Execution \d/ })).toHaveCount(0);
  await expect(palette.getByText("Some labels can't be read.")).toHaveCount(1);
  expect(recent).toBe(1);
});

test("the command palette says that nothing was found only when all requests are complete", async ({ console, page }) => {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/graphql", async (route) => {
    if (route.request().postData()?.includes("query FindText")) {
      await released;
    }
    return route.continue();
  });
  await console.open("/", "Overview");
  const request = page.waitForRequest((sent) => sent.postData()?.includes("query FindText") ?? false);
  await console.search(`none-${unique()}`);
  await request;
  const empty = page.getByRole("dialog").getByText("Nothing found");
  await expect(empty).toHaveCount(0);
  release();
  await expect(empty).toBeVisible();
});

test("an execution is started with labels", async ({ console, page }) => {
  const path = await orders(console.url);
  await console.open(`/execute?path=${path}`, "Execute");
  await page.getByLabel("Labels").fill("team");
  await expect(page.getByRole("button", { name: "Execute", exact: true })).toHaveAttribute("aria-disabled", "true");
  await page.getByLabel("Labels").fill('team=shop, note="a, b"');
  await page.getByRole("button", { name: "Execute", exact: true }).click();
  await page.getByRole("status").filter({ hasText: "The request started an execution." }).getByRole("link").click();
  await expect(console.title).toHaveText(path);
  await expect(page.getByRole("link", { name: "note=a, b" })).toBeVisible();
  await expect(page.getByRole("link", { name: "team=shop" })).toBeVisible();
});

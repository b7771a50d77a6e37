import { expectAccessible, expectPartAccessible, MODAL } from "./accessibility";
import { graphql, idle, PROCESS, register, registerPlaybook, report, reruns } from "./api";
import { executionRow, expect, test } from "./console";

/** Starts children of an execution that no worker takes, in one request, and returns their ids. */
async function children(url: string, parent: string, count: number, path = PROCESS): Promise<string[]> {
  const request = { entry: { path }, parentExecutionId: parent, executionPool: "no-worker" };
  const requests = Array.from({ length: count }, () => request);
  const { executeBatch } = await graphql<{ executeBatch: { results: { executionId: string }[] } }>(
    url,
    `mutation ($requests: [ExecuteInput!]!) { executeBatch(input: { requests: $requests }) { results { executionId } } }`,
    { requests },
  );
  return executeBatch.results.map(({ executionId }) => executionId);
}

/** Registers a playbook whose steps follow each other, and returns its path. */
async function registerChain(url: string, names: readonly string[]): Promise<string> {
  const path = `tests/flow/${crypto.randomUUID()}`;
  const steps = names.map((name, index) => {
    const next = names[index + 1];
    const arcs = next === undefined ? "" : `    next: { spec: { mode: exclusive }, arcs: [{ step: ${next} }] }\n`;
    return `  - step: ${name}\n    tool: { kind: noop }\n${arcs}`;
  });
  const content = `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: test, path: ${path} }\nworkflow:\n${steps.join("")}`;
  await register(url, content);
  return path;
}

/** Events of a loop whose iterations last 1.5 s; those with these indexes fail. */
function loopWithFailures(nodeName: string, iterations: number, failing: readonly number[]): object[] {
  const from = Date.now();
  const events = Array.from({ length: iterations }, (_, index) => {
    const event = (type: string, status: string, after: number, error?: string) => ({
      type,
      nodeName,
      status,
      meta: { command_id: `${nodeName}:i${index}` },
      createdAt: new Date(from + index + after).toISOString(),
      ...(error !== undefined && { error }),
    });
    const fails = failing.includes(index);
    const end = fails ? event("command.failed", "FAILED", 1_500, `no stock ${index}`) : event("command.completed", "COMPLETED", 1_500);
    return [event("command.issued", "PENDING", 0), event("command.started", "STARTED", 0), end];
  });
  const enter = { type: "step.enter", nodeName, status: "ENTERED", context: { iterations_expected: iterations } };
  return [enter, ...events.flat(), { type: "loop.done", nodeName, status: "COMPLETED" }];
}

interface Sent {
  query: string;
  variables?: { after?: string | null; input?: { dryRun?: boolean } };
}

const STACK_TRACE = ["Traceback (most recent call last):", ...Array.from({ length: 11 }, (_, line) => `  line ${line}`)].join("\n");
const FAILED_STEP = [
  { type: "step.enter", nodeName: "charge", status: "ENTERED" },
  { type: "command.issued", nodeName: "charge", status: "PENDING", meta: { command_id: "charge:1", attempt: 1 } },
  { type: "command.started", nodeName: "charge", status: "STARTED", meta: { command_id: "charge:1", attempt: 1 } },
  {
    type: "command.failed",
    nodeName: "charge",
    status: "FAILED",
    error: "no answer",
    stackTrace: STACK_TRACE,
    meta: { command_id: "charge:1", attempt: 1 },
  },
];

test("a started execution appears in the list, and its row changes when it is cancelled", async ({ console, page }) => {
  await console.open("/executions", "Executions");
  await expect(page.getByRole("status", { name: "List" })).toHaveText("Live");
  const id = await idle(console.url);
  await expect(executionRow(page, id)).toContainText("Pending");
  const cancel = `mutation ($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled } }`;
  await graphql(console.url, cancel, { id });
  await expect(executionRow(page, id)).toContainText("Cancelled");
});

test("the server filters the list, the filter is in the address, and a saved view brings it back", async ({ console, page }) => {
  const parent = await idle(console.url);
  await console.open(`/executions?path=${PROCESS}&statuses=PENDING`, "Executions");
  await expect(executionRow(page, parent)).toBeVisible();
  await page.getByLabel("Parent").fill(parent);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`parent=${parent}`));
  await expect(page.getByText("No execution matches the filter")).toBeVisible();
  await expect(page.getByRole("status", { name: "List" })).toHaveText("Live");

  await page.getByRole("button", { name: "Saved views" }).click();
  await page.getByLabel("Name of the current filter").fill("Children");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(executionRow(page, parent)).toBeVisible();
  await page.reload();
  await page.getByRole("button", { name: "Saved views (1)" }).click();
  await page.getByRole("link", { name: "Children" }).click();
  await expect(page).toHaveURL(new RegExp(`parent=${parent}`));
});

test("the last ended executions are listed first, not live, and the order is in the address", async ({ console, page }) => {
  const cancel = `mutation ($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled } }`;
  const newest = `{ executions(order: LAST_ENDED, first: 1) { nodes { id } } }`;
  async function end(id: string): Promise<void> {
    await graphql(console.url, cancel, { id });
    const last = async () => {
      const { executions } = await graphql<{ executions: { nodes: { id: string }[] } }>(console.url, newest);
      return executions.nodes[0]?.id;
    };
    await expect.poll(last).toBe(id);
  }
  const [first, second, third] = [await idle(console.url), await idle(console.url), await idle(console.url)];
  await end(second);
  await end(first);
  await console.open("/executions", "Executions");
  await page.getByRole("combobox", { name: "Order", exact: true }).click();
  await page.getByRole("option", { name: "Last ended first" }).click();
  await expect(page).toHaveURL(/order=LAST_ENDED/);
  await expect(page.getByRole("status", { name: "List" })).toHaveText("Not live");
  const rows = page.getByRole("table", { name: "Executions" }).getByRole("row");
  await expect(rows.nth(1)).toContainText(first);
  await expect(rows.nth(2)).toContainText(second);
  await end(third);
  await page.getByRole("button", { name: "Load again" }).click();
  await expect(rows.nth(1)).toContainText(third);
  await expect(rows.nth(2)).toContainText(first);
});

test("cancelling by filter first shows what would be cancelled", async ({ console, page }) => {
  const parent = await idle(console.url);
  const { execute: child } = await graphql<{ execute: { executionId: string } }>(
    console.url,
    `mutation ($parent: ID!) {
      execute(input: { entry: { path: "${PROCESS}" }, parentExecutionId: $parent, executionPool: "no-worker" }) { executionId }
    }`,
    { parent },
  );
  await console.open(`/executions?parent=${parent}`, "Executions");
  await page.getByRole("button", { name: "Cancel filtered…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("status")).toHaveText("1 would be changed, 0 would be refused.");
  await expect(dialog.getByRole("cell", { name: new RegExp(child.executionId) })).toBeVisible();
  await expectPartAccessible(page, "bulk-cancel", MODAL);
  await dialog.getByLabel("Reason").fill("Not needed");
  await dialog.getByRole("button", { name: "Cancel executions (1)" }).click();
  await expect(dialog.getByRole("status")).toHaveText("1 changed, 0 refused.");
  await dialog.getByRole("button", { name: "Close", exact: true }).first().click();
  await expect(executionRow(page, child.executionId)).toContainText("Cancelled");

  await console.open(`/executions/${parent}?tab=children`, PROCESS);
  await expect(page.getByRole("list", { name: `Children of ${parent}` })).toContainText(child.executionId);
});

test("a rerun by filter first shows what would start, and links to what it has started", async ({ console, page }) => {
  const parent = await idle(console.url);
  const [child = ""] = await children(console.url, parent, 2);
  await console.open(`/executions?parent=${parent}`, "Executions");
  await page.getByRole("button", { name: "Rerun filtered…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("status")).toHaveText("2 would be started, 0 would be refused.");
  await dialog.getByRole("button", { name: "Rerun (2)" }).click();
  await expect(dialog.getByRole("status")).toHaveText("2 started, 0 refused.");
  await expectPartAccessible(page, "bulk-rerun", MODAL);
  const link = dialog.getByRole("row").filter({ hasText: child }).getByRole("link");
  const rerun = await link.innerText();
  expect(rerun).not.toBe(child);
  await link.click();
  await expect(page).toHaveURL(new RegExp(`/executions/${rerun}`));
  await expect(page.getByRole("main").getByRole("link", { name: child, exact: true })).toBeVisible();
});

test("a rerun by filter that lost a response or was stopped is continued, also by another page, and starts nothing twice", async ({
  console,
  page,
}) => {
  const path = await registerPlaybook(console.url);
  const parent = await idle(console.url);
  await children(console.url, parent, 401, path);
  const total = async () => {
    const { executionStats } = await graphql<{ executionStats: { total: number } }>(
      console.url,
      `query ($path: String!) { executionStats(filter: { path: $path }) { total } }`,
      { path },
    );
    return executionStats.total;
  };
  // Of the batches of 200 that start reruns, the second one loses its response, and the action is stopped during the third.
  const dialog = page.getByRole("dialog");
  let batches = 0;
  await page.route("**/graphql", async (route) => {
    const { query, variables } = route.request().postDataJSON() as Sent;
    if (!query.includes("mutation RerunExecutions") || variables?.input?.dryRun !== false) {
      return route.continue();
    }
    batches += 1;
    if (batches === 2) {
      await route.fetch();
      return route.fulfill({ body: "" });
    }
    if (batches === 3) {
      await dialog.getByRole("button", { name: "Stop" }).click();
    }
    return route.continue();
  });
  const open = async (result: string) => {
    await page.getByRole("button", { name: "Rerun filtered…" }).click();
    await expect(dialog.getByRole("status")).toHaveText(result);
  };
  const close = async () => {
    await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
    await expect(dialog).toHaveCount(0);
  };
  await console.open(`/executions?parent=${parent}`, "Executions");
  await open("401 would be started, 0 would be refused.");
  await dialog.getByRole("button", { name: "Rerun (401)" }).click();
  await expect(dialog.getByRole("status")).toHaveText("200 started, 0 refused, 201 without a result.");
  await expect(dialog.getByRole("alert")).toContainText("The response (status 200) is not JSON");

  await page.reload();
  await open("1 would be started, 400 would be refused.");
  await dialog.getByRole("button", { name: "Rerun (1)" }).click();
  await expect(dialog.getByRole("status")).toHaveText("0 started, 200 refused, 201 without a result.");
  await close();
  await open("1 would be started, 400 would be refused.");
  await dialog.getByRole("button", { name: "Rerun (1)" }).click();
  await expect(dialog.getByRole("status")).toHaveText("1 started, 400 refused.");
  expect(await total()).toBe(2 * 401);

  // The action is complete, so the next one starts all again.
  await close();
  await open("401 would be started, 0 would be refused.");
  await expect(dialog.getByText("401 of them were run again before.")).toBeVisible();
});

test("a rerun by filter that was stopped and failed is sent again, and can start all again", async ({ console, page }) => {
  const parent = await idle(console.url);
  const [child = ""] = await children(console.url, parent, 1);
  const dialog = page.getByRole("dialog");
  // The first request is stopped and gets lost, the second one loses its response.
  let requests = 0;
  await page.route("**/graphql", async (route) => {
    const { query, variables } = route.request().postDataJSON() as Sent;
    if (!query.includes("mutation RerunExecutions") || variables?.input?.dryRun !== false) {
      return route.continue();
    }
    requests += 1;
    if (requests === 1) {
      await dialog.getByRole("button", { name: "Stop" }).click();
    } else if (requests === 2) {
      await route.fetch();
    }
    return requests < 3 ? route.fulfill({ body: "" }) : route.continue();
  });
  const failure = dialog.getByRole("alert");
  const rerun = dialog.getByRole("button", { name: "Rerun (1)" });
  await console.open(`/executions?parent=${parent}`, "Executions");
  await page.getByRole("button", { name: "Rerun filtered…" }).click();
  await rerun.click();
  await expect(failure).toContainText("is not JSON");
  await rerun.click();
  await expect.poll(() => requests).toBe(2);
  await expect(failure).toContainText("is not JSON");

  await failure.getByRole("button", { name: "Try again" }).click();
  await expect(dialog.getByRole("status")).toHaveText("0 would be started, 1 would be refused.");
  await dialog.getByRole("button", { name: "Start all again" }).click();
  await expect(dialog.getByRole("status")).toHaveText("1 would be started, 0 would be refused.");
  await rerun.click();
  await expect(dialog.getByRole("status")).toHaveText("1 started, 0 refused.");
  expect(await reruns(console.url, child)).toHaveLength(2);
});

test("a rerun by filter needs a filter, and selects at most 10,000 executions", async ({ console, page }) => {
  let pages = 0;
  const nodes = Array.from({ length: 1_000 }, (_, index) => ({ id: String(index) }));
  const executions = { nodes, pageInfo: { hasNextPage: true, endCursor: "next" }, unavailableShards: [] };
  await page.route("**/graphql", (route) => {
    const isSelection = (route.request().postDataJSON() as Sent).query.includes("query SelectedExecutions");
    pages += isSelection ? 1 : 0;
    return isSelection ? route.fulfill({ json: { data: { executions } } }) : route.continue();
  });
  await console.open("/executions", "Executions");
  for (const name of ["Rerun filtered…", "Cancel filtered…"]) {
    await expect(page.getByRole("button", { name })).toHaveAccessibleDescription(/^Set a filter first\./);
  }
  await page.getByRole("combobox", { name: "Started", exact: true }).click();
  await page.getByRole("option", { name: "Last day" }).click();
  await expect(page).toHaveURL(/since=1d/);
  await page.getByRole("button", { name: "Rerun filtered…" }).click();
  const refusal = page.getByRole("dialog").getByRole("alert");
  await expect(refusal).toContainText("More than 10,000 executions match the filter.");
  await expect(refusal).toContainText("Narrow the filter");
  expect(pages).toBe(10);
});

test("a list with many executions that started together is read a few times, and loads more", async ({ console, page }) => {
  const parent = await idle(console.url);
  let reads = 0;
  page.on("request", (request) => {
    reads += request.postData()?.includes("query ExecutionList(") ? 1 : 0;
  });
  await console.open(`/executions?parent=${parent}`, "Executions");
  await expect(page.getByRole("status", { name: "List" })).toHaveText("Live");
  await children(console.url, parent, 250);
  const shown = page.getByText(/^1?\d\d shown, the list has more$/);
  await expect(shown).toBeVisible();
  const before = await shown.innerText();
  await shown.scrollIntoViewIfNeeded();
  await expect(page.getByText(/ shown, the list has more$/)).not.toHaveText(before);
  expect(reads).toBeLessThan(8);
});

test("an execution that left the filter while the list was not live does not come back", async ({ console, page }) => {
  const parent = await idle(console.url);
  const [first = "", second = ""] = await children(console.url, parent, 2);
  await console.open(`/executions?parent=${parent}&statuses=PENDING`, "Executions");
  const live = page.getByRole("status", { name: "List" });
  await expect(live).toHaveText("Live");
  const [child = ""] = await children(console.url, parent, 1);
  await expect(executionRow(page, child)).toContainText("Pending");
  const cancel = (id: string) =>
    graphql(console.url, `mutation ($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled } }`, { id });
  await page.getByRole("button", { name: "Pause" }).click();
  await expect(live).toHaveText("Paused");
  await cancel(first);
  await expect(executionRow(page, first)).toContainText("Pending");
  await page.getByRole("button", { name: "Resume" }).click();
  await expect(live).toHaveText("Live");
  await expect(executionRow(page, first)).toHaveCount(0);

  const order = async (name: string) => {
    await page.getByRole("combobox", { name: "Order", exact: true }).click();
    await page.getByRole("option", { name }).click();
  };
  await order("Oldest first");
  await expect(live).toHaveText("Not live");
  await cancel(second);
  await cancel(child);
  await order("Newest first");
  await expect(live).toHaveText("Live");
  await expect(executionRow(page, second)).toHaveCount(0);
  await expect(executionRow(page, child)).toHaveCount(0);
});

test("an execution is run again in its version, once if the response was lost, also after the dialog was closed", async ({
  console,
  page,
}) => {
  const origin = await idle(console.url, PROCESS, { workload: { currency: "USD" } });
  let lost = false;
  await page.route("**/graphql", async (route) => {
    if (lost || !(route.request().postDataJSON() as Sent).query.includes("mutation RerunExecution(")) {
      return route.continue();
    }
    lost = true;
    await route.fetch();
    return route.fulfill({ body: "" });
  });
  await console.open(`/executions/${origin}`, PROCESS);
  await page.getByRole("button", { name: "Rerun…" }).click();
  const rerun = page.getByRole("dialog").getByRole("button", { name: "Rerun", exact: true });
  await rerun.click();
  const refusal = page.getByRole("dialog").getByRole("alert");
  await expect(refusal).toContainText("is not JSON");
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.getByRole("button", { name: "Rerun…" }).click();
  const newest = page.getByRole("checkbox", { name: "Run the newest version of the path" });
  await newest.check();
  await rerun.click();
  await expect(refusal).toContainText("which a different request started");
  await newest.uncheck();
  await rerun.click();
  const main = page.getByRole("main");
  await expect(main.getByText("Rerun of")).toBeVisible();
  await expect(main.getByRole("link", { name: origin, exact: true })).toBeVisible();
  expect(await reruns(console.url, origin)).toHaveLength(1);
  await page.getByRole("tab", { name: "Input and result" }).click();
  await expect(page.getByRole("region", { name: "Input" })).toContainText('"USD"');
});

test("an execution shows its steps while they change, and the state after an earlier event", async ({ console, page }) => {
  const id = await idle(console.url);
  await console.open(`/executions/${id}`, PROCESS);
  await expect(page.getByRole("status", { name: "Live updates" })).toHaveText("Live");
  const diagram = page.getByRole("group", { name: "Flow diagram of the steps" });
  await expect(diagram.getByRole("button", { name: "charge" })).toContainText("Not reached");

  await report(console.url, id, FAILED_STEP);
  await expect(diagram.getByRole("button", { name: "charge" })).toContainText("Failed");
  const failure = page.getByRole("alert").filter({ hasText: "The execution failed" });
  await expect(failure).toContainText("no answer");
  const trace = failure.getByRole("region", { name: "Stack trace" });
  await expect(trace).toContainText("line 10");
  await expect(trace).not.toContainText("Traceback");
  await trace.getByRole("button", { name: "Show all 12 lines" }).click();
  await expect(trace).toContainText("Traceback");
  await trace.getByRole("button", { name: /^Copy stack trace/ }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(STACK_TRACE);
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

test("the last event of a long execution is in the slider, the timeline and the events, and each earlier one can be reached", async ({
  console,
  page,
}) => {
  const id = await idle(console.url);
  const events = Array.from({ length: 1_000 }, (_, index) => ({ type: `load.${index}`, nodeName: "load", status: "RUNNING" }));
  for (const count of [1_000, 1_000, 1_000, 1_000, 1_000, 500]) {
    await report(console.url, id, events.slice(0, count));
  }
  await report(console.url, id, FAILED_STEP);
  await console.open(`/executions/${id}?tab=timeline`, PROCESS);
  await expect(page.getByText("The newest 5,000 of 5,505 events are loaded.")).toBeVisible();
  const timeline = page.getByRole("region", { name: "Timeline of the steps" });
  await expect(timeline.getByTitle(/^Failed after/)).toHaveCount(1);

  const history = page.getByRole("region", { name: "History" });
  const place = history.getByRole("status");
  await expect(place).toContainText("Event 5,505 of 5,505: command.failed of charge");
  await history.getByRole("slider").press("Home");
  await expect(place).toContainText("Event 1 of 5,505: playbook_started");
  await expect(page).toHaveURL(/at=\d+/);
  await history.getByRole("button", { name: "Later event" }).click({ clickCount: 12 });
  await expect(place).toContainText("Event 13 of 5,505: load.11 of load");
  // Only the events around the place were read, not those up to the newest ones.
  await expect(page.getByText("The newest 5,000 of 5,505 events are loaded.")).toBeVisible();
  await page.reload();
  await expect(place).toContainText("Event 13 of 5,505: load.11 of load");
  await history.getByRole("button", { name: "Newest" }).click();

  await page.getByRole("tab", { name: "Events" }).click();
  await expect(page.getByText("5,505 events, newest first.")).toBeVisible();
  const rows = page.getByRole("table", { name: "Events of the execution" }).getByRole("row");
  await expect(rows.nth(1)).toContainText("command.failed");
  await page.getByRole("button", { name: "Load earlier" }).click();
  await expect(page.getByRole("button", { name: "Load earlier" })).toHaveCount(0);

  await page.getByRole("link", { name: "Open in Events" }).click();
  await expect(console.events.rows.last()).toContainText("command.failed");
  await expect(page.getByText("1,000 of 5,505 stored")).toBeVisible();
  await page.getByRole("button", { name: "Load earlier" }).click();
  await expect(page.getByRole("button", { name: "Load earlier" })).toHaveCount(0);
  await console.events.list.evaluate((list) => list.scrollTo(0, 0));
  await expect(console.events.rows.first()).toContainText("playbook_started");
});

test("an execution shows its trace id, which can be copied, links to the trace, and shows the attempts of its steps", async ({ console, page }) => {
  const traceId = crypto.randomUUID().replaceAll("-", "");
  const { execute: payload } = await graphql<{ execute: { executionId: string } }>(
    console.url,
    `mutation ($trace: TraceContextInput) {
      execute(input: { entry: { path: "${PROCESS}" }, executionPool: "no-worker", trace: $trace }) { executionId }
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
  const { server } = await graphql<{ server: { traceUrl: string | null } }>(console.url, "{ server { traceUrl } }");
  await console.open(`/executions/${id}`, PROCESS);
  await expect(page.getByText(traceId)).toBeVisible();
  const address = server.traceUrl?.replace("{traceId}", traceId) ?? "";
  await expect(page.getByRole("link", { name: "Open the trace" })).toHaveAttribute("href", address);
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
  await console.open(`/executions/${id}`, PROCESS);
  const table = page.getByRole("table", { name: "Steps" });
  await expect(table.getByRole("row")).toHaveCount(101);
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByRole("button", { name: "Load more" }).click();
  await page.getByText("250 shown").scrollIntoViewIfNeeded();
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

test("a long flow is wrapped, is opened at its failed step, and finds steps by name", async ({ console, page }) => {
  const names = ["start", ...Array.from({ length: 59 }, (_, index) => `step-${String(index + 1).padStart(2, "0")}`)];
  const path = await registerChain(console.url, names);
  const [id = ""] = await children(console.url, await idle(console.url), 1, path);
  await report(console.url, id, FAILED_STEP.map((event) => ({ ...event, nodeName: "step-40" })));
  await console.open(`/executions/${id}`, path);
  const diagram = page.getByRole("group", { name: "Flow diagram of the steps" });
  const step = (name: string) => diagram.getByRole("button", { name: new RegExp(`^${name}`) });
  await diagram.scrollIntoViewIfNeeded();
  await expect(step("step-40")).toBeInViewport({ ratio: 1 });
  await expect(step("start")).not.toBeInViewport();
  await expect(diagram.getByRole("img", { name: "Map of the flow" })).toBeVisible();
  const [failed, later] = [await step("step-40").boundingBox(), await step("step-50").boundingBox()];
  expect(failed?.width).toBeGreaterThan(130);
  expect(later?.y).toBeGreaterThan((failed?.y ?? 0) + (failed?.height ?? 0));

  const search = page.getByRole("searchbox", { name: "Find a step" });
  const found = page.getByRole("status", { name: "Found steps" });
  await search.fill("STEP-1");
  await expect(found).toHaveText("1 of 10: step-10");
  await expect(step("step-10")).toBeInViewport({ ratio: 1 });
  await search.press("Shift+Enter");
  await expect(found).toHaveText("10 of 10: step-19");
  await search.press("Enter");
  await search.press("Enter");
  await expect(found).toHaveText("2 of 10: step-11");
  await search.fill("step-59");
  await expect(step("step-59")).toBeInViewport({ ratio: 1 });
  await expectAccessible(page, "long-flow", '[role="tabpanel"]');
});

test("a loop lists its failed iterations first, a step of 0 ms has a mark in the timeline, and a part of this can be chosen", async ({
  console,
  page,
}) => {
  const id = await idle(console.url);
  const createdAt = new Date().toISOString();
  const instant = ["step.enter", "step.exit"].map((type) => ({ type, nodeName: "check", status: "COMPLETED", createdAt }));
  await report(console.url, id, [...instant, ...loopWithFailures("charge", 40, [7, 21, 39])]);
  await console.open(`/executions/${id}`, PROCESS);
  const charge = page.getByRole("group", { name: "Flow diagram of the steps" }).getByRole("button", { name: "charge" });
  await expect(charge).toContainText("3 of 40 failed");
  await expect(charge).toHaveAttribute("data-tone", "mixed");
  await charge.click();
  const rows = page.getByRole("table", { name: "Iterations" }).getByRole("row");
  for (const [row, index] of [7, 21, 39].entries()) {
    await expect(rows.nth(row + 1)).toContainText(new RegExp(`^${index}\\s*Failed.*no stock ${index}$`));
  }
  await expect(rows.nth(1)).toContainText("1.5 s");
  await expect(rows.nth(4)).toContainText("Completed");
  await page.getByRole("region", { name: "Step charge" }).getByRole("button", { name: "Load more" }).click();
  await expect(rows).toHaveCount(41);

  await page.getByRole("tab", { name: "Timeline" }).click();
  const timeline = page.getByRole("region", { name: "Timeline of the steps" });
  const mark = timeline.getByTitle("check, 0 ms");
  await expect(mark).toBeVisible();
  expect((await mark.boundingBox())?.width).toBeGreaterThan(8);

  const shown = page.getByRole("status", { name: "Shown time" });
  const start = timeline.getByText("Start", { exact: true });
  await start.hover();
  const { x, width } = (await timeline.boundingBox())!;
  const [from, to, y] = [x + width * 0.6, x + width * 0.9, (await start.boundingBox())!.y + 5];
  await page.mouse.move(from, y);
  await page.mouse.down();
  await page.mouse.move(to, y);
  await page.mouse.up();
  await expect(shown).toHaveText(/^[\d:.]+ to [\d:.]+ \(/);
  await expect(page).toHaveURL(/range=\d+-\d+/);
  await expect(mark).toHaveCount(0);
  await timeline.press("0");
  await expect(shown).toHaveText("Whole time");
  await expect(mark).toBeVisible();
  await timeline.press("+");
  await page.getByRole("button", { name: "Whole time" }).click();
  await expect(page).not.toHaveURL(/range=/);
});

test("an execution is cancelled with a reason", async ({ console, page }) => {
  const id = await idle(console.url);
  await console.open(`/executions/${id}`, PROCESS);
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Keep running" }).click();
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.getByRole("button", { name: "Cancel…" }).click();
  await expectPartAccessible(page, "cancel", MODAL);
  await page.getByLabel("Reason").fill("Wrong order");
  await page.getByRole("button", { name: "Cancel execution" }).click();
  await expect(page.getByRole("alert").filter({ hasText: "The execution was cancelled" })).toContainText("Wrong order");
  await expect(page.getByRole("button", { name: "Cancel…" })).toHaveAttribute("aria-disabled", "true");
});

test("two runs of a path are compared side by side", async ({ console, page }) => {
  const successful = await idle(console.url);
  await report(console.url, successful, [{ type: "playbook.completed", status: "COMPLETED" }]);
  const left = await idle(console.url, PROCESS, { workload: { currency: "EUR" } });
  const right = await idle(console.url, PROCESS, { workload: { currency: "USD" } });
  await report(console.url, left, FAILED_STEP);
  const { rerunExecution } = await graphql<{ rerunExecution: { executionId: string } }>(
    console.url,
    `mutation ($id: ID!) { rerunExecution(input: { executionId: $id }) { executionId } }`,
    { id: left },
  );
  const completed = `query ($path: String!) { executions(filter: { path: $path, statuses: [COMPLETED] }, first: 1) { nodes { id } } }`;
  const lastCompleted = async () => {
    const { executions } = await graphql<{ executions: { nodes: { id: string }[] } }>(console.url, completed, { path: PROCESS });
    return executions.nodes[0]?.id;
  };
  await expect.poll(lastCompleted).toBe(successful);
  await console.open(`/executions/${left}?tab=compare`, PROCESS);
  await page.getByRole("combobox", { name: "Compare with" }).click();
  for (const group of ["Last successful run before this one", "Reruns of this run", "Newest runs of the path"]) {
    await expect(page.getByRole("listbox").getByText(group)).toBeVisible();
  }
  await expect(page.getByRole("option").nth(1)).toContainText(rerunExecution.executionId);
  await page.getByRole("option").first().click();
  const steps = page.getByRole("table", { name: "Steps of both runs" });
  await expect(steps.getByRole("row", { name: /^Whole run/ })).toContainText(successful);

  const id = page.getByRole("textbox", { name: "Id of another run" });
  for (const [wrong, reason] of [
    ["order-17", "1 to 19 digits"],
    [left, "This is the id of the shown run."],
    ["12345678901", "There is no execution 12345678901."],
  ] as const) {
    await id.fill(wrong);
    await id.press("Enter");
    await expect(id).toHaveAccessibleDescription(new RegExp(reason));
    await expect(id).toHaveAttribute("aria-invalid", "true");
  }
  await id.fill(right);
  await page.getByRole("button", { name: "Compare by id" }).click();
  await expect(steps.getByRole("row", { name: /^charge/ })).toContainText(/Not reached.*Failed in this run/);
  const errors = page.getByRole("table", { name: "Errors of both runs" });
  await expect(errors.getByRole("row", { name: /^charge/ })).toHaveText(/no answer.*Not reached.*Only this run/);
  await expect(page.getByRole("table", { name: "Differences: Input" }).getByRole("row", { name: /^currency/ })).toContainText(
    /"EUR".*"USD"/,
  );
});

test("a completed execution says how many of its steps have failed", async ({ console, page }) => {
  const id = await idle(console.url);
  await report(console.url, id, [...FAILED_STEP, { type: "playbook.completed", status: "COMPLETED" }]);
  await console.open("/executions", "Executions");
  await expect(executionRow(page, id)).toContainText("Completed");
  await expect(executionRow(page, id)).toContainText("1 failed step");

  const other = await idle(console.url);
  await expect(executionRow(page, other)).toBeVisible();
  await page.getByRole("textbox", { name: "Pool" }).fill("no-worker");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/pool=no-worker/);
  await expect(executionRow(page, other)).toBeVisible();
  await page.getByRole("combobox", { name: "Failed steps" }).click();
  await page.getByRole("option", { name: "With failed steps" }).click();
  await expect(page).toHaveURL(/failedSteps=1/);
  await expect(executionRow(page, other)).toHaveCount(0);
  await expect(executionRow(page, id)).toBeVisible();
  await page.getByRole("textbox", { name: "Pool" }).fill("other-pool");
  await page.keyboard.press("Enter");
  await expect(page.getByText("No execution matches the filter")).toBeVisible();

  await console.open(`/executions/${id}`, PROCESS);
  await expect(page.getByRole("main").getByText("1 failed step", { exact: true })).toBeVisible();
});

test("an execution and its rerun link to each other, and the list is filtered by reruns", async ({ console, page }) => {
  const origin = await idle(console.url);
  const { rerunExecution } = await graphql<{ rerunExecution: { executionId: string } }>(
    console.url,
    `mutation ($id: ID!) { rerunExecution(input: { executionId: $id }) { executionId } }`,
    { id: origin },
  );
  await console.open(`/executions/${origin}`, PROCESS);
  const main = page.getByRole("main");
  await main.getByRole("link", { name: rerunExecution.executionId, exact: true }).click();
  await expect(page).toHaveURL(new RegExp(`/executions/${rerunExecution.executionId}`));
  await expect(main.getByText("Rerun of")).toBeVisible();
  await main.getByRole("link", { name: origin, exact: true }).click();
  await expect(page).toHaveURL(new RegExp(`/executions/${origin}`));

  await console.open("/executions", "Executions");
  await expect(executionRow(page, origin)).toBeVisible();
  await page.getByRole("combobox", { name: "Reruns" }).click();
  await page.getByRole("option", { name: "Only reruns" }).click();
  await expect(page).toHaveURL(/reruns=1/);
  await expect(executionRow(page, origin)).toHaveCount(0);
  await expect(executionRow(page, rerunExecution.executionId)).toBeVisible();
});

import { graphql, idle, registerPlaybook, report, reruns } from "./api";
import { executionRow, expect, test } from "./console";
import { Task } from "./task";

test("all that failed on a path in the last hour runs again in 5 clicks and keys", async ({ console, page }) => {
  const path = await registerPlaybook(console.url);
  const [first, second, pending] = [await idle(console.url, path), await idle(console.url, path), await idle(console.url, path)];
  for (const id of [first, second]) {
    await report(console.url, id, [{ type: "playbook.failed", status: "FAILED", error: "no answer" }]);
  }
  await expect.poll(() => failures(console.url, path)).toBe(2);
  await console.open("/", "Overview");
  const task = new Task();
  await task.act(page.keyboard.press("ControlOrMeta+K"));
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("textbox")).toBeFocused();
  await task.act(page.keyboard.type(path));
  await task.act(dialog.getByRole("button", { name: `Failed in the last hour: ${path}` }).click());
  await expect(console.title).toHaveText("Executions");
  await task.act(page.getByRole("button", { name: "Rerun filtered…" }).click());
  await expect(dialog.getByRole("status")).toHaveText("2 would be started, 0 would be refused.");
  await task.act(dialog.getByRole("button", { name: "Rerun (2)" }).click());
  await expect(dialog.getByRole("status")).toHaveText("2 started, 0 refused.");
  expect(task.count).toBe(5);
  for (const id of [first, second]) {
    expect(await reruns(console.url, id)).toHaveLength(1);
  }

  // The page of the path leads to the same list.
  await console.open(`/catalog/${path}`, path);
  await page.getByRole("link", { name: "Failed in the last hour" }).click();
  await expect(executionRow(page, first)).toBeVisible();
  await expect(executionRow(page, second)).toBeVisible();
  await expect(executionRow(page, pending)).toHaveCount(0);
});

test("selected executions are run again and cancelled, and the result leads to the reruns, and back", async ({ console, page }) => {
  const path = await registerPlaybook(console.url);
  const [first, second, third] = [await idle(console.url, path), await idle(console.url, path), await idle(console.url, path)];
  const dialog = page.getByRole("dialog");
  const close = () => dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  const boxOf = (id: string) => page.getByRole("checkbox", { name: `Select ${path} ${id}` });
  await console.open(`/executions?path=${path}`, "Executions");
  await expect(executionRow(page, third)).toBeVisible();
  for (const name of ["Rerun selected…", "Cancel selected…"]) {
    await expect(page.getByRole("button", { name })).toHaveAccessibleDescription("Select executions in the list first.");
  }
  await boxOf(first).focus();
  await page.keyboard.press("Space");
  await boxOf(second).check();
  await expect(page.getByRole("status", { name: "Selection" })).toHaveText("2 selected");
  await page.getByRole("button", { name: "Rerun selected…" }).click();
  await expect(dialog.getByRole("status")).toHaveText("2 would be started, 0 would be refused.");
  await expect(dialog.getByText("run again before")).toHaveCount(0);
  await dialog.getByRole("button", { name: "Rerun (2)" }).click();
  await expect(dialog.getByRole("status")).toHaveText("2 started, 0 refused.");
  await dialog.getByRole("link", { name: "List what started in the time of the reruns" }).click();
  await expect(dialog).toHaveCount(0);
  const [rerun = ""] = await reruns(console.url, first);
  for (const id of [rerun, ...(await reruns(console.url, second))]) {
    await expect(executionRow(page, id)).toBeVisible();
  }
  await expect(executionRow(page, first)).toHaveCount(0);

  await console.open(`/executions?path=${path}`, "Executions");
  await expect(executionRow(page, first).getByRole("link", { name: "Was run again" })).toBeVisible();
  await expect(executionRow(page, third).getByRole("link", { name: "Was run again" })).toHaveCount(0);
  await page.getByRole("checkbox", { name: "Select all 5 shown" }).check();
  await page.getByRole("button", { name: "Rerun selected…" }).click();
  await expect(dialog.getByText("2 of them were run again before.")).toBeVisible();
  await dialog.getByRole("button", { name: "Cancel", exact: true }).click();
  await expect(dialog).toHaveCount(0);
  await page.getByRole("button", { name: "Cancel selected…" }).click();
  await dialog.getByRole("button", { name: "Cancel executions (5)" }).click();
  await expect(dialog.getByRole("status")).toHaveText("5 changed, 0 refused.");
  await close();
  await expect(executionRow(page, third)).toContainText("Cancelled");

  await executionRow(page, first).getByRole("link", { name: "Was run again" }).click();
  await expect(page).toHaveURL(new RegExp(`/executions/${rerun}`));
  await page.getByRole("main").getByRole("link", { name: first, exact: true }).click();
  await expect(page.getByRole("link", { name: "Was run again" })).toHaveAttribute("href", `/executions/${rerun}`);
  await console.open(`/executions?rerunOf=${first}`, "Executions");
  await expect(page.getByRole("table", { name: "Executions" }).getByRole("row")).toHaveCount(2);
  await expect(executionRow(page, rerun)).toBeVisible();
});

test("executions are found by the version of their path", async ({ console, page }) => {
  const path = await registerPlaybook(console.url);
  const first = await idle(console.url, path);
  await registerPlaybook(console.url, path, "changed");
  const second = await idle(console.url, path);
  await console.open(`/executions?path=${path}&version=1`, "Executions");
  await expect(executionRow(page, first)).toBeVisible();
  await expect(executionRow(page, second)).toHaveCount(0);
  await page.getByRole("textbox", { name: "Version", exact: true }).fill("x");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main").getByRole("alert").first()).toContainText("version must be 1 to 32767");

  await console.search(`${path} version 2`);
  await page.getByRole("button", { name: `Executions of ${path}, version 2` }).click();
  await expect(executionRow(page, second)).toBeVisible();
  await expect(executionRow(page, first)).toHaveCount(0);
  await console.open(`/catalog/${path}`, path);
  await page.getByRole("link", { name: "1 of this version" }).click();
  await expect(page).toHaveURL(/version=2/);
});

/** Returns the number of the executions of a path that failed in the last hour. */
async function failures(url: string, path: string): Promise<number> {
  const { executions } = await graphql<{ executions: { nodes: object[] } }>(
    url,
    `query ($path: String!, $since: DateTime!) {
      executions(filter: { path: $path, statuses: [FAILED], endedAfter: $since }) { nodes { id } }
    }`,
    { path, since: new Date(Date.now() - 3_600_000).toISOString() },
  );
  return executions.nodes.length;
}

import type { Page } from "@playwright/test";

import { idle, registerPlaybook, report, startedElsewhere } from "./api";
import { expect, test } from "./console";

const SIZES = [
  { width: 1024, height: 768 },
  { width: 390, height: 844 },
];
const ERROR = "e".repeat(4_000);
const ALL = "Show all 4,000 characters";

/** Registers a playbook with a path of 84 characters, and returns the path and an execution that failed with a long error. */
async function failed(url: string): Promise<{ path: string; id: string }> {
  const path = await registerPlaybook(url, `tests/${crypto.randomUUID()}/`.padEnd(84, "long-name"));
  const id = await idle(url, path);
  const meta = { command_id: "start:1", attempt: 1 };
  await report(url, id, [
    { type: "step.enter", nodeName: "start", status: "ENTERED" },
    { type: "command.issued", nodeName: "start", status: "PENDING", meta },
    { type: "command.started", nodeName: "start", status: "STARTED", meta },
    { type: "command.failed", nodeName: "start", status: "FAILED", error: ERROR, meta },
  ]);
  return { path, id };
}

/** Returns the number of pixels by which the page is wider than the window. */
function tooWide(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

test("a path of 84 characters and an error of 4,000 leave the page in the window, and the whole is read and copied", async ({
  console,
  page,
}) => {
  const { path, id } = await failed(console.url);
  const main = page.getByRole("main");
  const places = [
    { address: `/catalog?prefix=${path}`, title: "Catalog", shown: main.getByRole("link", { name: path, exact: true }) },
    { address: `/audit?action=started&find=${id}`, title: "Audit", shown: main.getByRole("link", { name: id, exact: true }) },
    { address: `/executions/${id}?tab=events`, title: path, shown: main.getByRole("button", { name: ALL }).last() },
    { address: `/executions/${id}`, title: path, shown: main.getByRole("button", { name: ALL }).last() },
    { address: `/executions?path=${path}`, title: "Executions", shown: main.getByRole("link", { name: id, exact: true }) },
  ];
  for (const { address, title, shown } of places) {
    await console.open(address, title);
    for (const size of SIZES) {
      await page.setViewportSize(size);
      await expect(shown).toBeVisible();
      await expect.poll(() => tooWide(page), `${address} at ${size.width}`).toBeLessThanOrEqual(0);
    }
  }

  // The list of executions is open. Its first column stays when the others are scrolled.
  await page.setViewportSize(SIZES[0]!);
  const frame = page.getByRole("group", { name: "Executions", exact: true });
  // A shadow is at each edge behind which the table has more. The left one is that of the first column.
  const shadows = () =>
    frame.evaluate((element) =>
      [element.querySelector("td")!, element].map((part) => !getComputedStyle(part).boxShadow.startsWith("rgba(0, 0, 0, 0)")),
    );
  await expect.poll(shadows).toEqual([false, true]);
  const scrolled = await frame.evaluate((element) => {
    element.scrollTo({ left: element.scrollWidth });
    return element.scrollLeft;
  });
  expect(scrolled).toBeGreaterThan(100);
  await expect.poll(shadows).toEqual([true, false]);
  await expect(frame.getByText("Failed", { exact: true })).toBeInViewport({ ratio: 1 });
  await frame.evaluate((element) => element.scrollTo({ left: 0 }));
  await frame.getByRole("link", { name: path, exact: true }).focus();
  await expect(page.getByRole("tooltip")).toHaveText(path);
  await frame.getByRole("button", { name: "Copy path" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(path);

  await frame.getByRole("link", { name: id, exact: true }).click();
  await expect(console.title).toHaveText(path);
  const steps = page.getByRole("table", { name: "Steps" });
  await expect(steps).not.toContainText(ERROR);
  await steps.getByRole("button", { name: ALL }).click();
  await expect(steps.getByRole("group", { name: "Whole error" })).toHaveText(ERROR);
  await steps.getByRole("button", { name: "Copy whole error" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(ERROR);
  expect(await tooWide(page)).toBeLessThanOrEqual(0);
});

test("a list of 10,000 executions is loaded by scrolling, and only the rows near the window are drawn", async ({ console, page }) => {
  const [pages, perPage] = [10, 1_000];
  const idOf = (index: number) => String(900_000_000_000 - index);
  const rowAt = (index: number) => {
    const startedAt = new Date(Date.UTC(2026, 0, 1) - index * 1_000).toISOString();
    const states = { status: "COMPLETED", statusText: "COMPLETED", failedSteps: 0, startedAt, endedAt: startedAt, error: null };
    return { id: idOf(index), path: "tests/long", ...states, shard: 0, labels: [], progress: null, parent: null };
  };
  await page.route("**/graphql", (route) => {
    const { query, variables } = route.request().postDataJSON() as { query: string; variables?: { after?: string | null } };
    if (!query.includes("query ExecutionList(")) {
      return route.continue();
    }
    const number = Number(variables?.after ?? 0);
    const nodes = Array.from({ length: perPage }, (_, index) => rowAt(number * perPage + index));
    const pageInfo = { hasNextPage: number + 1 < pages, endCursor: String(number + 1) };
    return route.fulfill({ json: { data: { executions: { nodes, pageInfo, unavailableShards: [] } } } });
  });
  // No execution has this path, so the live list adds none.
  await console.open("/executions?path=tests/none", "Executions");
  const table = page.getByRole("table", { name: "Executions" });
  const scrollTo = (place: "start" | "end") =>
    page.evaluate((to) => window.scrollTo(0, to === "end" ? document.documentElement.scrollHeight : 0), place);
  const shown = page.getByText(/^[\d,]+ shown/);
  const scrollOn = async () => {
    await scrollTo("end");
    return shown.innerText();
  };
  await expect(table.getByRole("row").filter({ hasText: idOf(0) })).toBeVisible();
  await expect.poll(scrollOn, { intervals: [100] }).toBe("10,000 shown");
  const last = table.getByRole("row").filter({ hasText: idOf(pages * perPage - 1) });
  await expect(async () => {
    await scrollTo("end");
    await expect(last).toBeInViewport({ timeout: 500 });
  }).toPass();
  await expect(table).toHaveAttribute("aria-rowcount", "10001");
  await expect(last).toHaveAttribute("aria-rowindex", "10001");
  expect(await page.locator("tr").count()).toBeLessThan(200);
  await scrollTo("start");
  await expect(table.getByRole("row").filter({ hasText: idOf(0) })).toBeInViewport();
  expect(await page.locator("tr").count()).toBeLessThan(200);
});

test("the list of executions goes to a time, and shows the last execution before it first", async ({ console, page }) => {
  const path = "tests/long/time";
  await startedElsewhere(console.url, path, "2019-12-01T00:00:00Z");
  const wanted = await startedElsewhere(console.url, path, "2019-12-30T00:00:00Z");
  await startedElsewhere(console.url, path, "2020-01-03T00:00:00Z");
  const newest = await idle(console.url);
  await console.open("/executions", "Executions");
  const rows = page.getByRole("table", { name: "Executions" }).getByRole("row");
  await expect(rows.filter({ hasText: newest })).toBeVisible();
  await page.getByRole("combobox", { name: "Started", exact: true }).click();
  await page.getByRole("option", { name: "Before a time" }).click();
  await page.getByLabel(/^Started until/).fill("2020-01-01T00:00:00");
  await expect(page).toHaveURL(/until=(?:2019-12-31|2020-01-01)/);
  await expect(page).not.toHaveURL(/since=/);
  await expect(rows.nth(1)).toContainText(wanted);
  await expect(rows.filter({ hasText: newest })).toHaveCount(0);
});

import type { Page } from "@playwright/test";

import { expectAccessible, expectPartAccessible, MODAL, NARROW, WIDE } from "./accessibility";
import { execute, graphql, idle, INBOX, register, report } from "./api";
import { expect, test, type Console } from "./console";
import { deadLetters } from "./dead_letters";
import { activeInbox } from "./inbox";

const [DIALOG, MENU] = ['[role="dialog"]', '[role="menu"]'];

/** Parts of views that a user opens: details and dialogs. Other tests check the views below the dialogs. */
const PARTS: { name: string; part?: string; open: (console: Console, page: Page) => Promise<void> }[] = [
  {
    name: "subscription",
    open: async (console) => console.open(`/subscriptions/${await activeInbox(console.url)}`, INBOX),
  },
  {
    name: "bulk-pause",
    part: MODAL,
    open: async (console, page) => {
      await activeInbox(console.url);
      await console.open("/subscriptions", "Subscriptions");
      await page.getByRole("button", { name: "Change all in the list" }).click();
      await page.getByRole("menuitem", { name: "Pause…" }).click();
      await expect(page.getByRole("dialog").getByRole("status")).toContainText("would be changed");
    },
  },
  {
    name: "registration",
    part: MODAL,
    open: async (console) => console.open(`/subscriptions?register=${INBOX}`, "Subscriptions"),
  },
  {
    name: "outbox-entry",
    part: MODAL,
    open: async (console) => {
      const [letter] = await deadLetters(console.url, 1);
      await console.open(`/outbox?statuses=DEAD&entry=${letter?.id}`, "Outbox");
    },
  },
  {
    name: "event-detail",
    open: async (console, page) => {
      await console.open(`/events?from=beginning&event=${await newestEvent(console.url)}`, "Events");
      await expect(page.getByRole("button", { name: "Copy JSON" })).toBeVisible();
      await expect(console.events.rows.first()).toBeVisible();
    },
  },
  {
    name: "command-palette",
    part: MODAL,
    open: async (console, page) => {
      const id = await execute(console.url);
      await console.open("/system", "System");
      await console.search(id);
      await expect(page.getByText(`Execution ${id}`)).toBeVisible();
      await console.search("samples/orders/process");
      await expect(page.getByText("Catalog entry samples/orders/process")).toBeVisible();
    },
  },
  {
    name: "catalog-difference",
    open: async (console, page) => {
      const path = await twoVersions(console.url);
      await console.open(`/catalog/${path}?show=difference`, path);
      await expect(page.getByRole("textbox", { name: "Difference from version 1 to version 2" })).toContainText("second");
    },
  },
];

for (const { name, part, open } of PARTS) {
  test(`${name} has no serious issue of accessibility, and is not cut off`, async ({ console, page }) => {
    await page.setViewportSize(WIDE);
    await open(console, page);
    await expect(console.connection).toHaveText("Live");
    await expect(page.locator(part ?? "main")).toBeVisible();
    await expectAccessible(page, name, part);
  });
}

test("menus, dialogs, errors and the navigation of a narrow screen have no issue of accessibility", async ({ console, page }) => {
  await page.setViewportSize(WIDE);
  const check = async (name: string, part: string) => {
    await expectPartAccessible(page, name, part);
    await page.keyboard.press("Escape");
  };
  const press = (name: string) => page.getByRole("button", { name }).click();

  await console.open("/executions", "Executions");
  await press("Export");
  await check("export", MENU);
  await press("Saved views");
  await expectPartAccessible(page, "saved-views", DIALOG);
  await page.getByLabel("Name of the current filter").fill("All");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await press("Watch All");
  await expect(page.getByLabel("Notify me above")).toBeVisible();
  await check("watch", DIALOG);
  await page.getByRole("combobox", { name: "Order", exact: true }).click();
  await expect(page.getByRole("option", { name: "Oldest first" })).toBeVisible();
  await check("order", '[role="listbox"]:has([role="option"])');
  await press("User and settings");
  await expectPartAccessible(page, "user", DIALOG);
  await press("Sign in");
  await check("sign-in", MODAL);

  await console.open(`/executions/${await withFailedStep(console.url)}`, "samples/orders/process");
  await expect(page.getByRole("alert").getByRole("link", { name: "charge" })).toBeVisible();
  await check("error-of-a-step", '[role="alert"]');
  await press("Rerun…");
  await check("rerun", MODAL);
  await page.goto(`${console.url}/executions/12345678901`);
  await expect(page.getByText("There is no execution with this id")).toBeVisible();
  await expect(page.getByRole("link", { name: "open its events" })).toBeVisible();
  await check("unknown-execution", "main");

  await console.open("/execute?path=samples/orders/process", "Execute");
  await page.getByLabel("order").fill("{");
  await expect(page.getByText("This is not JSON")).toBeVisible();
  await check("invalid-field", "main");

  await activeInbox(console.url);
  await console.open("/subscriptions", "Subscriptions");
  await page.getByRole("button", { name: `More actions on ${INBOX}` }).first().click();
  await check("actions", MENU);
  await page.setViewportSize(NARROW);
  await press("Open the navigation");
  await check("navigation", "nav");
});

/** Starts an execution that no worker takes, and reports a failed step of it. Returns its id. */
async function withFailedStep(url: string): Promise<string> {
  const id = await idle(url);
  const meta = { command_id: "charge:1", attempt: 1 };
  await report(url, id, [
    { type: "step.enter", nodeName: "charge", status: "ENTERED" },
    { type: "command.issued", nodeName: "charge", status: "PENDING", meta },
    { type: "command.started", nodeName: "charge", status: "STARTED", meta },
    { type: "command.failed", nodeName: "charge", status: "FAILED", error: "The payment service did not answer", meta },
  ]);
  return id;
}

/** Returns the id of the newest event of a new execution. */
async function newestEvent(url: string): Promise<string> {
  const { events } = await graphql<{ events: { nodes: { id: string }[] } }>(
    url,
    `query ($id: ID!) { events(executionId: $id, last: 1) { nodes { id } } }`,
    { id: await execute(url) },
  );
  return events.nodes[0]?.id ?? "";
}

/** Registers two versions of a new path, and returns the path. */
async function twoVersions(url: string): Promise<string> {
  const path = `tests/difference/${crypto.randomUUID()}`;
  for (const description of ["first", "second"]) {
    const content = `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: test\n  path: ${path}\n  description: ${description}\nworkflow:\n  - step: start\n    tool: { kind: noop }\n`;
    await register(url, content);
  }
  return path;
}

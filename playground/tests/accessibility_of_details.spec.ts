import type { Page } from "@playwright/test";

import { expectAccessible } from "./accessibility";
import { execute, graphql, INBOX } from "./api";
import { expect, test, type Console } from "./console";
import { deadLetters } from "./dead_letters";
import { activeInbox } from "./inbox";

/** Parts of views that a user opens: details and dialogs. */
const PARTS: { name: string; open: (console: Console, page: Page) => Promise<void> }[] = [
  {
    name: "subscription",
    open: async (console) => console.open(`/subscriptions/${await activeInbox(console.url)}`, INBOX),
  },
  {
    name: "bulk-pause",
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
    open: async (console) => console.open(`/subscriptions?register=${INBOX}`, "Subscriptions"),
  },
  {
    name: "outbox-entry",
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
    name: "cancel-dialog",
    open: async (console, page) => {
      await console.open(`/executions/${await execute(console.url)}`, "samples/orders/process");
      await page.getByRole("button", { name: "Cancel…" }).click();
      await expect(page.getByRole("dialog", { name: "Cancel the execution" })).toBeVisible();
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

for (const { name, open } of PARTS) {
  test(`${name} has no serious issue of accessibility, and is not cut off`, async ({ console, page }) => {
    await page.setViewportSize({ width: 1280, height: 800 });
    await open(console, page);
    await expect(console.connection).toHaveText("Live");
    await expectAccessible(page, name);
  });
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
    await graphql(
      url,
      `mutation ($content: String!) { registerCatalogEntry(input: { content: $content }) { userErrors { message } } }`,
      { content },
    );
  }
  return path;
}

import type { Locator, Page } from "@playwright/test";

import { expectPartAccessible, MODAL } from "./accessibility";
import { execute, graphql, INBOX, report, withoutInbox } from "./api";
import { expect, test } from "./console";
import { activeInbox, statusOf, transition } from "./inbox";

const LIST = `/subscriptions?path=${INBOX}`;

test("a complete bulk pause is done by keyboard alone", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  await console.open(`${LIST}&statuses=ACTIVE`, "Subscriptions");
  await expect(rowOf(page, id)).toContainText("Active");

  await tabTo(page, page.getByRole("button", { name: "Change all in the list" }));
  await page.keyboard.press("Enter");
  await expect(page.getByRole("menuitem", { name: "Pause…" })).toBeFocused();
  await page.keyboard.press("Enter");

  const dialog = page.getByRole("dialog", { name: "Pause subscriptions" });
  await expect(dialog.getByRole("status")).toHaveText("1 would be changed, 0 would be refused.");
  await expect(dialog.getByRole("row", { name: INBOX })).toContainText("Active → Paused");
  await expect(dialog.getByRole("textbox", { name: "Reason" })).toBeFocused();
  await page.keyboard.type("Maintenance of the store");
  await tabTo(page, dialog.getByRole("button", { name: "Pause (1)" }));
  await page.keyboard.press("Enter");

  await expect(dialog.getByRole("status")).toHaveText("1 changed, 0 refused.");
  await expect(dialog.getByRole("button", { name: "Close", exact: true })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(dialog).toBeHidden();
  await expect(page.getByText("No subscription matches the filter")).toBeVisible();
  expect(await statusOf(console.url, id)).toEqual({ status: "PAUSED", reason: "Maintenance of the store" });
});

test("a row offers the actions that the status allows, a pause needs one press, and a change by another user is shown", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  await console.open(LIST, "Subscriptions");
  const row = rowOf(page, id);
  await expect(row.getByRole("button", { name: "Resume" })).toHaveCount(0);
  await row.getByRole("button", { name: "Pause" }).click();
  await expect(row).toContainText("Paused");
  await expect(page.getByText(`${INBOX} is paused.`)).toBeVisible();
  await row.getByRole("button", { name: "Resume" }).click();
  await expect(row).toContainText("Active");
  const result = page.getByText(`${INBOX} is active.`);
  await expect(result).toBeVisible();
  await expect(console.connection).toHaveText("Live");
  await transition(console.url, "PAUSE", id);
  await expect(row).toContainText("Paused");
  await expect(result).toHaveCount(0);
});

test("table and detail show since when a subscription is in its state", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  await transition(console.url, "PAUSE", id);
  const { subscription } = await graphql<{ subscription: { updatedAt: string } }>(
    console.url,
    `query ($id: ID!) { subscription(by: { id: $id }) { updatedAt } }`,
    { id },
  );
  const time = page.locator(`time[datetime="${subscription.updatedAt}"]`);
  await console.open(LIST, "Subscriptions");
  await expect(page.getByRole("columnheader", { name: "In this state since" })).toBeVisible();
  await expect(rowOf(page, id).locator('td[data-title="In this state since"]').locator(time)).toContainText("ago");
  await rowOf(page, id).getByRole("link", { name: INBOX }).click();
  await expect(console.title).toHaveText(INBOX);
  await expect(page.getByText("in this state since").locator(time)).toContainText("ago");
});

test("drain and deactivate ask for confirmation and a reason, and draining shows what is left", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  await startChild(console.url, id);
  await console.open(LIST, "Subscriptions");
  const row = rowOf(page, id);
  await row.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Drain…" }).click();
  const dialog = page.getByRole("dialog", { name: `Drain ${INBOX}?` });
  await expectPartAccessible(page, "drain", MODAL);
  await dialog.getByRole("textbox", { name: "Reason" }).fill("The source moves");
  expect((await statusOf(console.url, id)).status).toBe("ACTIVE");
  await dialog.getByRole("button", { name: "Drain" }).click();
  await expect(row).toContainText("Draining");
  await expect(row).toContainText(/[1-9]\d* left/);
  expect(await statusOf(console.url, id)).toEqual({ status: "DRAINING", reason: "The source moves" });
  await row.getByRole("link", { name: INBOX }).click();
  await expect(page.getByRole("link", { name: /^Left to drain/ })).toContainText(/[1-9]/);
});

test("a confirmed action is refused if the status has changed since it was shown", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  await console.open(LIST, "Subscriptions");
  await rowOf(page, id).getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Deactivate…" }).click();
  const dialog = page.getByRole("dialog", { name: `Deactivate ${INBOX}?` });
  await expect(dialog).toBeVisible();
  await expectPartAccessible(page, "deactivate", MODAL);
  await transition(console.url, "PAUSE", id);
  await expect(rowOf(page, id)).toContainText("Paused");
  await dialog.getByRole("button", { name: "Deactivate" }).click();
  await expect(page.getByRole("alert")).toContainText("The server refused the request");
  expect((await statusOf(console.url, id)).status).toBe("PAUSED");
});

test("the server filters the subscriptions, and the filter is in the address", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  await console.open("/subscriptions", "Subscriptions");
  await expect(rowOf(page, id)).toBeVisible();
  await page.getByRole("textbox", { name: "Path begins with" }).fill("samples/none");
  await page.keyboard.press("Enter");
  await expect(page.getByText("No subscription matches the filter")).toBeVisible();
  await expect(page).toHaveURL(/path=samples%2Fnone/);
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(rowOf(page, id)).toBeVisible();
  const labels = page.getByRole("textbox", { name: "Labels" });
  await labels.fill("area=none");
  await page.keyboard.press("Enter");
  await expect(page.getByText("No subscription matches the filter")).toBeVisible();
  await labels.fill("area=orders");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/labels=area%3Dorders/);
  await expect(rowOf(page, id)).toBeVisible();
});

test("a subscription is registered from the catalog and activated", async ({ console, page }) => {
  await withoutInbox(console.url);
  await console.open("/subscriptions", "Subscriptions");
  await page.getByRole("button", { name: "Register a subscription" }).click();
  const dialog = page.getByRole("dialog", { name: "Register a subscription" });
  await dialog.getByRole("combobox", { name: "Catalog entry" }).fill("orders/in");
  await page.getByRole("option", { name: INBOX }).click();
  await expect(dialog.getByText("Registering creates a subscription.")).toBeVisible();
  await dialog.getByRole("button", { name: "Register" }).click();
  await expect(dialog.getByText(`${INBOX} is registered.`)).toBeVisible();
  await dialog.getByRole("button", { name: "Activate" }).click();
  await expect(dialog.getByText(`${INBOX} is active.`)).toBeVisible();
  await dialog.getByRole("link", { name: "Open it" }).click();
  await expect(console.title).toHaveText(INBOX);
  await expect(page.getByRole("region", { name: "History" }).getByText(/^(Registered|Activated)/)).toHaveCount(2);
});

test("the detail shows history, executions with whole errors, and catalog entry, live", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  const [failed, error] = [await startChild(console.url, id), "e".repeat(4_000)];
  await report(console.url, failed, [{ type: "playbook.failed", status: "FAILED", error }]);
  await console.open(`/subscriptions/${id}`, INBOX);
  await page.getByRole("button", { name: "Pause" }).click();
  const history = page.getByRole("region", { name: "History" });
  await expect(history.getByText(/^Paused/)).toBeVisible();
  await expect(page.getByRole("region", { name: "Catalog entry" })).toContainText("Version");
  await expect(page.getByRole("heading", { name: /^Executions of \S+ in the last 24 hours$/ })).toBeVisible();

  const started = await startChild(console.url, id);
  const executions = page.getByRole("table", { name: "Executions of the subscription" });
  await expect(executions.getByRole("link", { name: started })).toBeVisible();
  const failure = executions.getByRole("row").filter({ hasText: failed });
  await failure.getByRole("button", { name: "Show all 4,000 characters" }).click();
  await expect(failure.getByRole("group", { name: "Whole error" })).toHaveText(error);
  await page.getByRole("link", { name: /^Running/ }).click();
  await expect(page).toHaveURL(new RegExp(`parent=${id}`));
  await expect(page).toHaveURL(/statuses=PENDING(,|%2C)RUNNING/);
  await expect(page.getByRole("table", { name: "Executions" }).getByRole("row").filter({ hasText: started })).toContainText("Pending");
});

test("deactivated subscriptions are listed on demand, and on the page of another registration of the path", async ({ console, page }) => {
  const earlier = await activeInbox(console.url);
  await transition(console.url, "DEACTIVATE", earlier);
  const id = await activeInbox(console.url);
  await console.open(LIST, "Subscriptions");
  await expect(rowOf(page, id)).toBeVisible();
  await expect(rowOf(page, earlier)).toHaveCount(0);
  await page.getByRole("switch", { name: /^Show deactivated \([1-9]/ }).click();
  await expect(rowOf(page, earlier)).toContainText("Deactivated");
  await rowOf(page, id).getByRole("link", { name: INBOX }).click();
  const registrations = page.getByRole("table", { name: "Registrations of the path" });
  await expect(registrations.getByRole("row", { name: /This one/ })).toContainText("Active");
  await registrations.getByRole("link", { name: earlier }).click();
  await expect(page).toHaveURL(new RegExp(`/subscriptions/${earlier}$`));
});

test("a pasted id leads to the subscription, and a wrong id is explained", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  await console.open("/", "Overview");
  await console.search(id);
  await page.getByRole("button", { name: `Subscription ${id}` }).click();
  await expect(console.title).toHaveText(INBOX);
  const execution = await execute(console.url);
  await console.open(`/subscriptions/${execution}`, "Subscription");
  await expect(page.getByText("This subscription does not exist")).toBeVisible();
});

test("without the capability, the actions are disabled and say why", async ({ console, page }) => {
  const id = await activeInbox(console.url);
  await page.route("**/graphql", async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    if (body.data?.viewer) {
      body.data.viewer.capabilities = ["READ", "LIVE"];
      body.data.viewer.roles = ["VIEWER"];
    }
    await route.fulfill({ response, json: body });
  });
  await console.open(LIST, "Subscriptions");
  const pause = rowOf(page, id).getByRole("button", { name: "Pause" });
  await expect(pause).toHaveAttribute("aria-disabled", "true");
  await expect(pause).toHaveAccessibleDescription(/role VIEWER does not include the capability LIFECYCLE/);
  await expect(page.getByRole("button", { name: "Change all in the list" })).toHaveAttribute("aria-disabled", "true");
  await rowOf(page, id).getByRole("button", { name: "More actions" }).click();
  await expect(page.getByRole("menuitem", { name: "Deactivate…" })).toBeDisabled();
  // A request in flight would fail when the page closes.
  await page.unrouteAll({ behavior: "ignoreErrors" });
});

/** Starts an execution of a subscription that no worker takes, and returns its id. */
async function startChild(url: string, id: string): Promise<string> {
  const { execute: payload } = await graphql<{ execute: { executionId: string } }>(
    url,
    `mutation ($id: ID!) {
      execute(input: { entry: { path: "samples/orders/process" }, parentExecutionId: $id, executionPool: "no-worker" }) {
        executionId
      }
    }`,
    { id },
  );
  return payload.executionId;
}

/** Returns the row of a subscription: its path links to its details. */
function rowOf(page: Page, id: string): Locator {
  return page
    .getByRole("table", { name: "Subscriptions" })
    .getByRole("row")
    .filter({ has: page.locator(`a[href="/subscriptions/${id}"]`) });
}

/** Presses Tab until an element has the focus. */
async function tabTo(page: Page, element: Locator): Promise<void> {
  await expect(element).toBeVisible();
  for (let presses = 0; presses < 60; presses += 1) {
    if (await element.evaluate((node) => node === document.activeElement)) {
      return;
    }
    await page.keyboard.press("Tab");
  }
  await expect(element).toBeFocused();
}

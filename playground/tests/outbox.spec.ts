import type { Locator, Page } from "@playwright/test";

import { expectPartAccessible, MODAL } from "./accessibility";
import { execute, graphql } from "./api";
import { expect, test } from "./console";
import { deadLetters, statusOfEntry, type DeadLetter } from "./dead_letters";

test("dead letters are retried by filter, after a dry run", async ({ console, page }) => {
  const [letter] = (await deadLetters(console.url, 1)) as [DeadLetter];
  await console.open(`/outbox?execution=${letter.executionId}`, "Outbox");
  await expect(rowOf(page, letter)).toContainText("Dead");
  await expect(rowOf(page, letter)).toContainText("The broker refused the message");
  await page.getByRole("button", { name: "Retry all in the list…" }).click();
  const dialog = page.getByRole("dialog", { name: "Retry outbox entries" });
  await expect(dialog.getByRole("status")).toHaveText("1 would be changed.");
  await expect(dialog.getByRole("row").last()).toContainText("Dead → can be claimed");
  expect(await statusOfEntry(console.url, letter.id)).toBe("DEAD");

  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/graphql", async (route) => {
    const { variables } = route.request().postDataJSON() as { variables?: { input?: { dryRun?: boolean } } };
    if (variables?.input?.dryRun === false) {
      await released;
    }
    return route.continue();
  });
  await dialog.getByRole("button", { name: "Retry (1)" }).click();
  await dialog.getByRole("button", { name: "Stop" }).click();
  await expect(dialog.getByText("The action ends after the request that is in progress.")).toBeVisible();
  release();
  await expect(dialog.getByRole("status")).toHaveText("1 changed.");
  await dialog.getByRole("button", { name: "Close", exact: true }).click();
  await expect(rowOf(page, letter)).toContainText("Published");
});

test("dead letters are discarded by filter, after a dry run", async ({ console, page }) => {
  const [letter, other] = (await deadLetters(console.url, 2)) as [DeadLetter, DeadLetter];
  await console.open(`/outbox?statuses=DEAD&execution=${letter.executionId}`, "Outbox");
  await page.getByRole("button", { name: "Discard all in the list…" }).click();
  const dialog = page.getByRole("dialog", { name: "Discard outbox entries" });
  await dialog.getByRole("button", { name: "Discard (1)" }).click();
  await expect(dialog.getByRole("status")).toHaveText("1 changed.");
  await page.keyboard.press("Escape");
  await expect(page.getByText("No entry matches the filter")).toBeVisible();
  expect(await statusOfEntry(console.url, letter.id)).toBeNull();
  expect(await statusOfEntry(console.url, other.id)).toBe("DEAD");
});

test("one dead letter is retried or discarded in its row, with a reason", async ({ console, page }) => {
  const [first, second] = (await deadLetters(console.url, 2)) as [DeadLetter, DeadLetter];
  await console.open(`/outbox?execution=${first.executionId}`, "Outbox");
  await rowOf(page, first).getByRole("button", { name: "Retry" }).click();
  const retry = page.getByRole("dialog", { name: "Retry the entry" });
  await retry.getByLabel("Reason").fill("The broker is back");
  expect(await statusOfEntry(console.url, first.id)).toBe("DEAD");
  await retry.getByRole("button", { name: "Retry" }).click();
  await expect(rowOf(page, first)).toContainText("Published");
  expect(await reasonOf(console.url, first, "outbox.retried")).toBe("The broker is back");
  await expect(rowOf(page, first).getByRole("button", { name: "Retry" })).toHaveCount(0);

  await console.open(`/outbox?execution=${second.executionId}`, "Outbox");
  await rowOf(page, second).getByRole("button", { name: "Discard" }).click();
  await expectPartAccessible(page, "discard", MODAL);
  await page.getByRole("dialog").getByLabel("Reason").fill("The order is withdrawn");
  await page.getByRole("dialog").getByRole("button", { name: "Discard" }).click();
  await expect(page.getByText("No entry matches the filter")).toBeVisible();
  expect(await reasonOf(console.url, second, "outbox.discarded")).toBe("The order is withdrawn");
});

test("the overview leads to the dead letters, an entry shows its message, and its id leads to it", async ({ console, page }) => {
  const [letter] = (await deadLetters(console.url, 1)) as [DeadLetter];
  await console.open("/", "Overview");
  await page.getByRole("region", { name: "Health" }).getByRole("link", { name: "Open the dead entries" }).click();
  await expect(console.title).toHaveText("Outbox");
  await expect(page).toHaveURL(/statuses=DEAD/);
  await expect(rowOf(page, letter)).toBeVisible();

  await page.goBack();
  await expect(console.title).toHaveText("Overview");
  await console.search(letter.id);
  await page.getByRole("button", { name: `Outbox entry ${letter.id}` }).click();
  await expect(page).toHaveURL(new RegExp(`/outbox\\?entry=${letter.id}`));
  const details = page.getByRole("dialog", { name: "Outbox entry" });
  await expect(details.getByRole("region", { name: "Message" })).toContainText(letter.executionId);
  await expect(details.getByRole("region", { name: "Last error" })).toContainText("The broker refused the message");
  await details.getByRole("button", { name: "Discard" }).click();
  await page.getByRole("dialog", { name: "Discard the entry" }).getByRole("button", { name: "Discard" }).click();
  await expect(details).toBeHidden();
  await expect(page).not.toHaveURL(/entry=/);
});

test("a text is found in the loaded entries, and actions by filter wait until it is cleared", async ({ console, page }) => {
  const execution = await execute(console.url);
  await console.open("/outbox", "Outbox");
  const entries = page.getByRole("table", { name: "Outbox entries" });
  await expect(entries.getByRole("link", { name: execution })).toBeVisible();
  await page.getByRole("textbox", { name: "Find in the list" }).fill(execution);
  await page.keyboard.press("Enter");
  await expect(entries.getByRole("row")).toHaveCount(2);
  await expect(page.getByRole("button", { name: "Discard all in the list…" })).toHaveAttribute("aria-disabled", "true");
});

function rowOf(page: Page, { id }: DeadLetter): Locator {
  return page
    .getByRole("table", { name: "Outbox entries" })
    .getByRole("row")
    .filter({ has: page.getByRole("link", { name: `Entry ${id.slice("outbox-".length)}`, exact: true }) });
}

/** Returns the reason in the event that an action on a dead letter wrote to the log of its execution. */
async function reasonOf(url: string, { executionId }: DeadLetter, type: string): Promise<string | undefined> {
  const { events } = await graphql<{ events: { nodes: { context: { reason?: string } }[] } }>(
    url,
    `query ($id: ID!, $type: String!) { events(executionId: $id, filter: { types: [$type] }, last: 1) { nodes { context } } }`,
    { id: executionId, type },
  );
  return events.nodes[0]?.context.reason;
}

import type { BrowserContext, Page } from "@playwright/test";

import config, { chromium } from "../playwright.config";
import { execute, graphql } from "./api";
import { Console, expect, test } from "./console";

const MINUTE_MS = 60_000;

test.use({ launchOptions: { ...config.use?.launchOptions, executablePath: chromium() } });

/** Permits notifications, and keeps the titles of those that a page shows. While the page is `broken`, it can make none. */
async function recordNotifications(context: BrowserContext): Promise<void> {
  await context.grantPermissions(["notifications"]);
  await context.addInitScript(() => {
    const titles: string[] = [];
    class Recorded extends Notification {
      constructor(title: string, options?: NotificationOptions) {
        if ("broken" in window) {
          titles.push(`refused ${title}`);
          throw new TypeError("Illegal constructor");
        }
        super(title, options);
        titles.push(title);
      }
    }
    Object.assign(window, { Notification: Recorded, titles });
  });
}

async function titlesOf(page: Page): Promise<string[]> {
  return page.evaluate(() => (window as unknown as { titles: string[] }).titles);
}

/** Waits until a page that is not the list has counted the executions of a watched view. */
async function nextCount(page: Page): Promise<void> {
  const isCount = (body: string | null) => body?.includes("query ExecutionCounts") ?? false;
  const response = await page.waitForResponse((one) => isCount(one.request().postData()));
  await response.finished();
}

async function startChild(url: string, parent: string): Promise<void> {
  await graphql(
    url,
    `mutation ($parent: ID!) {
      execute(input: { entry: { path: "samples/orders/process" }, parentExecutionId: $parent, executionPool: "no-worker" }) {
        executionId
      }
    }`,
    { parent },
  );
}

test("a watched view notifies once when its count rises, from one of the open pages", async ({ console, page, context }) => {
  await recordNotifications(context);
  await context.clock.install();
  const parent = await execute(console.url);
  const first = await context.newPage();
  await new Console(first, console.url).open(`/executions?parent=${parent}`, "Executions");
  await first.getByRole("button", { name: "Saved views" }).click();
  await first.getByLabel("Name of the current filter").fill("Children");
  await first.getByRole("button", { name: "Save", exact: true }).click();
  await first.getByRole("button", { name: "Watch Children" }).click();
  await expect(first.getByLabel("Notify me above")).toHaveValue("0");
  await first.getByRole("button", { name: "Watch", exact: true }).click();
  await expect(first.getByRole("button", { name: "Stop watching Children" })).toBeVisible();
  await console.open("/", "Overview");

  // A notification that the browser refuses is shown after the next count.
  await first.evaluate(() => void Object.assign(window, { broken: true }));
  await startChild(console.url, parent);
  await context.clock.fastForward(MINUTE_MS);
  const titles = ["Children is watched", "refused Children: 1 execution"];
  await expect.poll(() => titlesOf(first)).toEqual(titles);
  await first.evaluate(() => Reflect.deleteProperty(window, "broken"));
  await context.clock.fastForward(MINUTE_MS);
  await expect.poll(() => titlesOf(first)).toEqual([...titles, "Children: 1 execution"]);

  // The other page takes over, counts at once, and knows that the user was notified.
  const counted = nextCount(page);
  await first.close();
  await counted;
  await startChild(console.url, parent);
  const countedAgain = nextCount(page);
  await context.clock.fastForward(MINUTE_MS);
  await countedAgain;
  expect(await titlesOf(page)).toEqual([]);
});

const REFUSALS = [
  {
    reason: "the permission of the user",
    message: "The browser refuses notifications of this page.",
    refuse: (context: BrowserContext) =>
      context.addInitScript(() => {
        Notification.requestPermission = async () => "denied";
      }),
  },
  {
    reason: "notifications of pages",
    message: "This browser shows no notifications of pages.",
    refuse: async (context: BrowserContext) => {
      await recordNotifications(context);
      await context.addInitScript(() => void Object.assign(window, { broken: true }));
    },
  },
];

for (const { reason, message, refuse } of REFUSALS) {
  test(`without ${reason}, a view is not watched, and the menu says why`, async ({ console, page, context }) => {
    await refuse(context);
    await console.open("/executions?statuses=FAILED", "Executions");
    await page.getByRole("button", { name: "Saved views" }).click();
    await page.getByLabel("Name of the current filter").fill("Failed");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("button", { name: "Watch Failed" }).click();
    await page.getByRole("button", { name: "Watch", exact: true }).click();
    await expect(page.getByText(message)).toBeVisible();
    await expect(page.getByRole("button", { name: "Watch Failed" })).toBeVisible();
  });
}

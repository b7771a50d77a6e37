import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { INBOX } from "./api";
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
];

for (const scheme of ["light", "dark"] as const) {
  for (const { name, open } of PARTS) {
    test(`${name} has no serious issue of accessibility: ${scheme}`, async ({ console, page }, info) => {
      await page.emulateMedia({ colorScheme: scheme });
      for (const [width, height] of [[1280, 800], [390, 844]] as const) {
        await page.setViewportSize({ width, height });
        await open(console, page);
        await expect(console.connection).toHaveText("Live");
        await expect(page.getByLabel("Loading")).toHaveCount(0);
        const { violations } = await new AxeBuilder({ page }).analyze();
        await page.screenshot({ path: info.outputPath(`${name}-${width}-${scheme}.png`) });
        const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
        expect(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`)).toEqual([]);
        const cutOff = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
        expect(cutOff).toBe(false);
      }
    });
  }
}

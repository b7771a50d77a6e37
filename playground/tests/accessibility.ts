import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { expect } from "./console";

const SCHEMES = ["light", "dark"] as const;
const SIZES = [
  { width: 1280, height: 800 },
  { width: 390, height: 844 },
] as const;

/**
 * Checks the opened page in both themes and at both widths: no serious issue of accessibility, and nothing is cut off. The
 * page follows a changed theme and width while it is open. Of the rules, only that of the contrast depends on the theme.
 */
export async function expectAccessible(page: Page, name: string): Promise<void> {
  for (const size of SIZES) {
    await page.setViewportSize(size);
    for (const colorScheme of SCHEMES) {
      const place = `${name}-${size.width}-${colorScheme}`;
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", colorScheme);
      await expect(page.getByLabel("Loading")).toHaveCount(0);
      await settled(page);
      const rules = colorScheme === SCHEMES[0] ? axe(page) : axe(page).withRules("color-contrast");
      const { violations } = await rules.analyze();
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      expect(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`), place).toEqual([]);
      const cutOff = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      expect(cutOff, `${place}: pixels that are cut off`).toBe(0);
    }
  }
}

function axe(page: Page): AxeBuilder {
  // A tab of GraphiQL contains its own buttons; its library draws it.
  const axe = new AxeBuilder({ page }).exclude(".graphiql-tab").options({ resultTypes: ["violations"] });
  // The page has no frames of other sites, so axe needs no second page to collect their results.
  return axe.setLegacyMode();
}

/** Waits until the transitions of colours and places have ended. Endless animations, and those that follow a scroll bar, go on. */
async function settled(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    const timed = document.getAnimations().filter(({ timeline }) => timeline instanceof DocumentTimeline);
    const ending = timed.filter(({ effect }) => effect?.getComputedTiming().endTime !== Infinity);
    await Promise.allSettled(ending.map(({ finished }) => finished));
  });
}

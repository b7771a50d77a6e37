import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { expect } from "./console";

type Scheme = "light" | "dark";

const SCHEMES = ["light", "dark"] as const satisfies Scheme[];
export const WIDE = { width: 1440, height: 900 };
export const NARROW = { width: 390, height: 844 };
/** Each width and each theme once, because axe takes longer than the rest of a test. */
const SHOWN = [
  [WIDE, "light"],
  [NARROW, "dark"],
] as const;
/** The page has the same parts as on a wide screen, so only what is cut off is checked. */
const BETWEEN = { width: 1024, height: 768 };
/** Selector of an opened dialog. */
export const MODAL = '[aria-modal="true"]';

/** Rules of WCAG 2.2 AA. */
const WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
/** Rules beside those that axe runs by their tags, or finds serious. */
const NAMED = ["label-content-name-mismatch", "target-size", "landmark-unique", "landmark-no-duplicate-banner"];
/** Only these rules depend on the theme. */
const OF_COLOURS = ["color-contrast", "link-in-text-block"];
/** Rules that compare a part with the rest of its page. */
const OF_LANDMARKS = ["landmark-unique", "landmark-no-duplicate-banner"];

type Violation = Awaited<ReturnType<AxeBuilder["analyze"]>>["violations"][number];

/**
 * Checks the opened page wide in the light theme, and narrow in the dark one: it breaks no rule of WCAG 2.2 AA and no serious or
 * named best practice, and nothing is cut off, also at a width between, which the page keeps. The page follows a changed theme and
 * width while it is open. If another test checks the rest of the page, the selector of a part, such as a dialog, leaves it out but
 * for its landmarks, which are those of the wide page.
 */
export async function expectAccessible(page: Page, name: string, part?: string): Promise<void> {
  for (const [size, scheme] of SHOWN) {
    await page.setViewportSize(size);
    const place = `${name}-${size.width}-${scheme}`;
    expect(await violations(page, scheme, part), place).toEqual([]);
    await expectNothingCutOff(page, place);
    if (part !== undefined && size === WIDE) {
      expect(await brokenRules(page, (await axe(page)).withRules(OF_LANDMARKS)), `${place}: landmarks`).toEqual([]);
    }
  }
  await page.setViewportSize(BETWEEN);
  await settled(page);
  await expectNothingCutOff(page, `${name}-${BETWEEN.width}`);
}

/**
 * Checks the colours of the opened page in the pairs of width and theme that `expectAccessible` leaves out. For the page with the
 * parts that all views share and that only one of the widths shows.
 */
export async function expectOtherColours(page: Page, name: string): Promise<void> {
  for (const [size, scheme] of [
    [WIDE, "dark"],
    [NARROW, "light"],
  ] as const) {
    await page.setViewportSize(size);
    expect(await violations(page, scheme, undefined, OF_COLOURS), `${name}-${size.width}-${scheme}`).toEqual([]);
  }
}

async function expectNothingCutOff(page: Page, place: string): Promise<void> {
  const cutOff = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(cutOff, `${place}: pixels that are cut off`).toBe(0);
}

/** Waits for a part of the opened page, such as a menu, and checks it in both themes. The part is given by its selector. */
export async function expectPartAccessible(page: Page, name: string, part: string): Promise<void> {
  await expect(page.locator(part).filter({ visible: true }).first()).toBeVisible();
  for (const scheme of SCHEMES) {
    // The other rules do not depend on the theme.
    const rules = scheme === SCHEMES[0] ? undefined : OF_COLOURS;
    expect(await violations(page, scheme, part, rules), `${name}-${scheme}`).toEqual([]);
  }
}

/**
 * Shows the page in a theme, and returns the rules that it breaks, or that a part of it breaks, with the elements. It checks all
 * rules, or only these.
 */
async function violations(page: Page, scheme: Scheme, part?: string, rules?: string[]): Promise<string[]> {
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
  await expect(page.locator("html")).toHaveAttribute("data-mantine-color-scheme", scheme);
  await expect(page.locator(part ?? "body").getByLabel("Loading")).toHaveCount(0);
  await settled(page);
  const all = part === undefined ? await axe(page) : (await axe(page)).include(part);
  return brokenRules(page, rules === undefined ? all : all.withRules(rules));
}

/** Returns the broken rules with their elements. */
async function brokenRules(page: Page, rules: AxeBuilder): Promise<string[]> {
  const found = await rules.analyze();
  const broken: string[] = [];
  for (const violation of found.violations.filter(isBroken)) {
    for (const { html, target } of violation.nodes) {
      if (violation.id !== "target-size" || !(await isBar(page, target))) {
        broken.push(`${violation.id}: ${html}`);
      }
    }
  }
  return broken;
}

function isBroken({ id, impact, tags }: Violation): boolean {
  return impact === "serious" || impact === "critical" || NAMED.includes(id) || tags.some((tag) => WCAG.includes(tag));
}

/** Returns whether an element is a bar of a chart, which may be narrow: the table below the chart has the same links. */
async function isBar(page: Page, target: Violation["nodes"][number]["target"]): Promise<boolean> {
  return page.locator(`css=${String(target[0])}`).evaluate((element) => element.closest("figure ol") !== null);
}

/** Returns axe with the rules to check. Its program stays in the page, because it has 1.3 MB. */
async function axe(page: Page): Promise<AxeBuilder> {
  const isLoaded = await page.evaluate(() => "axe" in globalThis);
  const builder = new AxeBuilder(isLoaded ? { page, axeSource: "void 0" } : { page })
    // A tab of GraphiQL contains its own buttons; its library draws it.
    .exclude(".graphiql-tab")
    .options({
      resultTypes: ["violations"],
      runOnly: { type: "tag", values: [...WCAG, "best-practice"] },
      rules: Object.fromEntries(NAMED.map((id) => [id, { enabled: true }])),
    });
  // The page has no frames of other sites, so axe needs no second page to collect their results.
  return builder.setLegacyMode();
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

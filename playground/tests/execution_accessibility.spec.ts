import { AxeBuilder } from "@axe-core/playwright";

import { execute } from "./api";
import { expect, test } from "./console";

const PARTS = ["flow", "timeline", "data", "events", "children", "compare"];

for (const scheme of ["light", "dark"] as const) {
  for (const width of [1280, 390]) {
    test(`the parts of an execution have no serious issue of accessibility and are not cut off: ${scheme}, ${width} pixels`, async ({
      console,
      page,
    }, info) => {
      const [id, other] = [await execute(console.url), await execute(console.url)];
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: 900 });
      for (const part of PARTS) {
        await console.open(`/executions/${id}?tab=${part}&compare=${other}&step=charge`, "samples/orders/process");
        await expect(page.getByLabel("Loading")).toHaveCount(0);
        await expect(page.getByRole("tabpanel")).not.toBeEmpty();
        await page.screenshot({ path: info.outputPath(`${part}-${width}-${scheme}.png`), fullPage: true });
        const { violations } = await new AxeBuilder({ page }).analyze();
        const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
        expect(serious.map(({ id: rule, nodes }) => `${part}: ${rule}: ${nodes.map((node) => node.html).join(" ")}`)).toEqual([]);
        const cutOff = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
        expect(cutOff, part).toBe(false);
      }
    });
  }
}

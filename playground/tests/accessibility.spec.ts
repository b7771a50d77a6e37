import { AxeBuilder } from "@axe-core/playwright";

import { execute } from "./api";
import { expect, test } from "./console";
import { VIEWS } from "./views";

const SIZES = [
  { width: 1280, height: 800 },
  { width: 390, height: 844 },
];

for (const scheme of ["light", "dark"] as const) {
  for (const { name, path, title } of VIEWS) {
    test(`${name} has no serious issue of accessibility, and is not cut off: ${scheme}`, async ({ console, page }, info) => {
      await execute(console.url);
      await page.emulateMedia({ colorScheme: scheme });
      await console.open(path, title);
      await expect(console.connection).toHaveText("Live");
      for (const size of SIZES) {
        await page.setViewportSize(size);
        await expect(page.getByLabel("Loading")).toHaveCount(0);
        // A tab of GraphiQL contains its own buttons; its library draws it.
        const { violations } = await new AxeBuilder({ page }).exclude(".graphiql-tab").analyze();
        await page.screenshot({ path: info.outputPath(`${name}-${size.width}-${scheme}.png`) });
        const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
        expect(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`)).toEqual([]);
        const { scrollWidth, clientWidth } = await page.evaluate(() => {
          const { scrollWidth, clientWidth } = document.documentElement;
          return { scrollWidth, clientWidth };
        });
        expect(scrollWidth).toBe(clientWidth);
      }
    });
  }
}

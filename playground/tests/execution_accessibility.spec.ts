import { expectAccessible, WIDE } from "./accessibility";
import { execute } from "./api";
import { expect, test } from "./console";

/** Names of the tabs after the first one. */
const TABS = ["Timeline", "Input and result", "Events", "Children", "Compare"];

test("the parts of an execution have no serious issue of accessibility, and are not cut off", async ({ console, page }) => {
  const [id, other] = [await execute(console.url), await execute(console.url)];
  await console.open(`/executions/${id}?tab=flow&compare=${other}&step=charge`, "samples/orders/process");
  await expect(page.getByRole("tabpanel", { name: "Flow" })).not.toBeEmpty();
  await expectAccessible(page, "Flow");
  for (const tab of TABS) {
    await page.setViewportSize(WIDE);
    await page.getByRole("tab", { name: tab, exact: true }).click();
    await expect(page.getByRole("tabpanel", { name: tab })).not.toBeEmpty();
    await expectAccessible(page, tab, '[role="tabpanel"]');
  }
});

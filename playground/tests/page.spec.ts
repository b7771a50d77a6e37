import { expect, test } from "./playground";

const TABS = ["Lifecycle", "ExecuteWithDedup", "LiveEvents", "Overview", "Catalog"];

for (const path of ["/", "/graphiql"]) {
  test(`${path} opens with a tab per use case`, async ({ playground, page }) => {
    await playground.open(path);
    await expect(page).toHaveTitle("NoETL control plane");
    await expect(page.getByRole("heading", { name: "NoETL control plane" })).toBeVisible();
    await expect(playground.tabTitles).toHaveText(TABS);
    await expect(page.getByRole("region", { name: "Variables" })).toContainText("samples/orders/inbox");
  });

  test(`${path} is served under a policy that allows no other host`, async ({ controlPlane }) => {
    const response = await fetch(controlPlane.url + path);
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'self'");
    expect(policy).not.toMatch(/https?:|unsafe-eval|\*/);
  });
}

test("a returning visitor keeps their tabs", async ({ playground, page }) => {
  await playground.open();
  await playground.tab("Overview").click();
  await playground.tab("Overview").getByRole("button", { name: "Close Tab" }).click();
  const kept = TABS.filter((title) => title !== "Overview");
  await expect(playground.tabTitles).toHaveText(kept);

  // Waits until the tabs are stored, because leaving the page earlier would lose the change.
  await page.waitForFunction(() => !localStorage.getItem("graphiql:tabState")?.includes("query Overview"));
  await playground.open();
  await expect(playground.tabTitles).toHaveText(kept);
});

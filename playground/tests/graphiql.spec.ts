import { expect, test } from "./console";

const TABS = ["Lifecycle", "ExecuteWithDedup", "LiveEvents", "Overview", "Catalog"];

test("GraphiQL opens with a tab per use case", async ({ console, page }) => {
  await console.graphiql.open();
  await expect(page).toHaveTitle("GraphiQL · NoETL");
  await expect(console.graphiql.tabTitles).toHaveText(TABS);
  await expect(page.getByRole("region", { name: "Variables" })).toContainText("samples/orders/inbox");
});

test("a view opens its document in a tab of GraphiQL", async ({ console, page }) => {
  await console.open("/events?types=playbook_*", "Events");
  await page.getByRole("link", { name: "Open as GraphQL" }).click();
  await expect(console.graphiql.tabTitles).toHaveText([...TABS, "EventsTail"]);
  await expect(page.getByRole("region", { name: "Variables" })).toContainText("playbook_*");
  await console.graphiql.run();
  await console.graphiql.expectAnswer('"CaughtUp"');
  await console.graphiql.stop();
});

test("a returning visitor keeps their tabs", async ({ console, page }) => {
  await console.graphiql.open();
  await console.graphiql.tab("Overview").click();
  await console.graphiql.tab("Overview").getByRole("button", { name: "Close Tab" }).click();
  const kept = TABS.filter((title) => title !== "Overview");
  await expect(console.graphiql.tabTitles).toHaveText(kept);

  // Waits until the tabs are stored, because leaving the page earlier would lose the change.
  await page.waitForFunction(() => !localStorage.getItem("graphiql:tabState")?.includes("query Overview"));
  await console.graphiql.open();
  await expect(console.graphiql.tabTitles).toHaveText(kept);
});

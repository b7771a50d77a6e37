import { expect, test } from "./console";

const TABS = ["Lifecycle", "ExecuteWithDedup", "LabelsAndHistory", "LiveEvents", "Overview", "Catalog"];

test("a view opens its document, with its indentation, in a tab of GraphiQL", async ({ console, page }) => {
  await console.open("/events?types=playbook_*", "Events");
  await page.getByRole("link", { name: "Open as GraphQL" }).click();
  await expect(console.graphiql.tabTitles).toHaveText([...TABS, "EventsTail"]);
  await expect(page.getByRole("region", { name: "Variables" })).toContainText("playbook_*");
  const lines = ["    ... on EventDelivery {", "      cursor", "      event {", "        ...TailEvent"].join("\n");
  expect(await console.graphiql.document()).toContain(lines);
  expect(await console.graphiql.document()).toContain("}\n\nfragment TailEvent on Event {\n  id\n");
  await console.graphiql.run();
  await console.graphiql.expectAnswer('"CaughtUp"');
  await console.graphiql.stop();
});

test("numbers in variables and in results keep all their digits", async ({ console, page }) => {
  const query = "mutation ($input: ExecuteInput!) { execute(input: $input) { execution { workload } } }";
  const variables = `{
    // Comments, and commas at the end, are allowed.
    "input": { "entry": { "path": "samples/orders/process" }, "executionPool": "no-worker", "workload": { "amount": 9007199254740993, } },
  }`;
  await console.graphiql.open(`/graphiql?${new URLSearchParams({ query, variables }).toString()}`);
  await expect(page.getByRole("region", { name: "Variables" })).toContainText("9007199254740993");
  await console.graphiql.run();
  await console.graphiql.expectAnswer('"amount": 9007199254740993');
});

test("GraphiQL opens with a tab per use case, and a returning visitor keeps their tabs", async ({ console, page }) => {
  await console.graphiql.open();
  await expect(page).toHaveTitle("GraphiQL · NoETL");
  await expect(console.graphiql.tabTitles).toHaveText(TABS);
  await expect(page.getByRole("region", { name: "Variables" })).toContainText("samples/orders/inbox");
  await console.graphiql.tab("Overview").click();
  await console.graphiql.tab("Overview").getByRole("button", { name: "Close Tab" }).click();
  const kept = TABS.filter((title) => title !== "Overview");
  await expect(console.graphiql.tabTitles).toHaveText(kept);

  // Waits until the tabs are stored, because leaving the page earlier would lose the change.
  await page.waitForFunction(() => !localStorage.getItem("graphiql:tabState")?.includes("query Overview"));
  await console.graphiql.open();
  await expect(console.graphiql.tabTitles).toHaveText(kept);
});

test("variables survive a reload, and a link opens a document with them without running it", async ({ console, page }) => {
  const { graphiql } = console;
  const variables = page.getByRole("region", { name: "Variables" });
  const stored = (text: string) =>
    page.waitForFunction((part) => localStorage.getItem("graphiql:tabState")?.includes(part), text);
  await graphiql.open();
  await stored("samples/orders/inbox");
  await graphiql.open();
  await expect(variables).toContainText("samples/orders/inbox");
  await graphiql.pasteVariables({ path: "tests/changed" });
  await stored("tests/changed");
  await graphiql.open();
  await expect(variables).toContainText("tests/changed");
  await expect(graphiql.tabTitles).toHaveText(TABS);

  await page.getByRole("button", { name: "Copy link to query and variables" }).click();
  const outcome = page.getByRole("status");
  await expect(outcome.filter({ hasText: "Link copied." })).toHaveCount(1);
  const link = new URL(await page.evaluate(() => navigator.clipboard.readText()));
  expect([...link.searchParams.keys()]).toEqual(["query", "variables"]);
  await page.evaluate(() => localStorage.clear());
  await graphiql.open(link.pathname + link.search);
  await expect(graphiql.tabTitles).toHaveText([...TABS, "Lifecycle"]);
  await expect(variables).toContainText("tests/changed");
  expect(await graphiql.document()).toBe(link.searchParams.get("query"));
  expect(await graphiql.answer()).toBe("");

  await graphiql.pasteVariables({ path: "x".repeat(9_000) });
  await page.getByRole("button", { name: "Copy link to query and variables" }).click();
  await expect(outcome.filter({ hasText: "too long for a link" })).toHaveCount(1);
});

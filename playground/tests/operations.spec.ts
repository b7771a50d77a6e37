import { execute, INBOX, withoutInbox } from "./api";
import { expect, test } from "./console";

test("a query shows its response", async ({ console }) => {
  await console.graphiql.open();
  await console.graphiql.tab("Overview").click();
  await console.graphiql.run();
  await console.graphiql.expectAnswer(/"shards": \[\s*\{\s*"shard": 0,\s*"available": true/);
});

test("a subscription is registered and activated", async ({ console }) => {
  await withoutInbox(console.url);
  await console.graphiql.open();
  await console.graphiql.run("Register");
  await console.graphiql.expectAnswer('"status": "REGISTERED"');

  const { subscription } = JSON.parse(await console.graphiql.answer()).data.registerSubscription;
  await console.graphiql.pasteVariables({ path: INBOX, id: subscription.id });
  await console.graphiql.run("Activate");
  await console.graphiql.expectAnswer('"status": "ACTIVE"');
  await console.graphiql.expectAnswer(subscription.id);
  await console.events.open(`?executions=${subscription.id}&from=beginning`);
  await expect(console.events.rows).toHaveText([/subscription\.registered/, /subscription\.activated/]);
});

test("a second execute with the same key is a duplicate, and the execution is found by its order", async ({ console, page }) => {
  await console.graphiql.open();
  await console.graphiql.tab("ExecuteWithDedup").click();
  await console.graphiql.pasteVariables({
    input: {
      entry: { path: "samples/orders/process" },
      workload: { order: { id: "1001" } },
      dedup: { key: crypto.randomUUID(), windowSeconds: 60 },
    },
  });
  await console.graphiql.run();
  await console.graphiql.expectAnswer('"outcome": "STARTED"');
  const first = JSON.parse(await console.graphiql.answer()).data.execute.execution.id;
  await console.graphiql.run();
  await console.graphiql.expectAnswer('"outcome": "DUPLICATE"');
  expect(JSON.parse(await console.graphiql.answer()).data.execute.execution.id).toBe(first);

  await console.graphiql.tab("LabelsAndHistory").click();
  // GraphiQL parses a tab a moment after it is shown, and stores the query then. Before, it sends the operation name of
  // the previous tab.
  await page.waitForFunction(() => localStorage.getItem("graphiql:query")?.includes("query LabelsAndHistory"));
  await console.graphiql.run();
  await console.graphiql.expectAnswer('"executionHistory": {');
  const { executions, executionHistory } = JSON.parse(await console.graphiql.answer()).data;
  expect(executions.nodes.map(({ id }: { id: string }) => id)).toContain(first);
  expect(executionHistory.buckets.length).toBeGreaterThanOrEqual(24);
});

test("a live subscription in a tab lists events as they commit, newest first", async ({ console }) => {
  await console.graphiql.open();
  await console.graphiql.tab("LiveEvents").click();
  await console.graphiql.run();
  await console.graphiql.expectAnswer('"CaughtUp"');

  const first = await execute(console.url);
  await console.graphiql.expectAnswer(first);
  const second = await execute(console.url);
  await console.graphiql.expectAnswer(second);
  const answer = await console.graphiql.answer();
  expect(answer.indexOf(second)).toBeLessThan(answer.indexOf(first));
  await console.graphiql.stop();
});

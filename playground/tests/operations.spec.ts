import { execute, INBOX, withoutInbox } from "./api";
import { expect, test } from "./console";

test("a second execute with a key is a duplicate, its order is found, and a subscription is registered and activated", async ({
  console,
}) => {
  const { events, graphiql } = console;
  await withoutInbox(console.url);
  await graphiql.open();
  await graphiql.tab("ExecuteWithDedup").click();
  await graphiql.pasteVariables({
    input: {
      entry: { path: "samples/orders/process" },
      workload: { order: { id: "1001" } },
      dedup: { key: crypto.randomUUID(), windowSeconds: 60 },
    },
  });
  await graphiql.run();
  await graphiql.expectAnswer('"outcome": "STARTED"');
  const first = JSON.parse(await graphiql.answer()).data.execute.execution.id;
  await graphiql.run();
  await graphiql.expectAnswer('"outcome": "DUPLICATE"');
  expect(JSON.parse(await graphiql.answer()).data.execute.execution.id).toBe(first);

  await graphiql.show("LabelsAndHistory");
  await graphiql.run();
  await graphiql.expectAnswer('"executionHistory": {');
  const { executions, executionHistory } = JSON.parse(await graphiql.answer()).data;
  expect(executions.nodes.map(({ id }: { id: string }) => id)).toContain(first);
  expect(executionHistory.buckets.length).toBeGreaterThanOrEqual(24);

  await graphiql.tab("Lifecycle").click();
  await graphiql.run("Register");
  await graphiql.expectAnswer('"status": "REGISTERED"');
  const { subscription } = JSON.parse(await graphiql.answer()).data.registerSubscription;
  await graphiql.pasteVariables({ path: INBOX, id: subscription.id });
  await graphiql.run("Activate");
  await graphiql.expectAnswer('"status": "ACTIVE"');
  await graphiql.expectAnswer(subscription.id);
  await events.open(`?executions=${subscription.id}&from=beginning`);
  await expect(events.rows).toHaveText([/subscription\.registered/, /subscription\.activated/]);
});

test("a query shows its response, and a live subscription lists events as they commit, newest first", async ({ console }) => {
  await console.graphiql.open();
  await console.graphiql.tab("Overview").click();
  await console.graphiql.run();
  await console.graphiql.expectAnswer(/"shards": \[\s*\{\s*"shard": 0,\s*"available": true/);

  await console.graphiql.show("LiveEvents");
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

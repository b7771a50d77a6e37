import { execute, INBOX, withoutInbox } from "./api";
import { expect, test } from "./playground";

test("a query shows its response", async ({ playground }) => {
  await playground.open();
  await playground.tab("Overview").click();
  await playground.run();
  await playground.expectAnswer(/"shards": \[\s*\{\s*"shard": 0,\s*"available": true/);
});

test("a subscription is registered and activated", async ({ playground }) => {
  await withoutInbox(playground.url);
  await playground.open();
  await playground.run("Register");
  await playground.expectAnswer('"status": "REGISTERED"');
  await expect(playground.liveLog.rows.filter({ hasText: "subscription.registered" })).toHaveCount(1);

  const { subscription } = JSON.parse(await playground.answer()).data.registerSubscription;
  await playground.pasteVariables({ path: INBOX, id: subscription.id });
  await playground.run("Activate");
  await playground.expectAnswer('"status": "ACTIVE"');
  await playground.expectAnswer(subscription.id);
  await expect(playground.liveLog.rowsOf(subscription.id)).toHaveText([
    /subscription\.activated/,
    /subscription\.registered/,
  ]);
});

test("a second execute with the same key is a duplicate", async ({ playground }) => {
  await playground.open();
  await playground.tab("ExecuteWithDedup").click();
  await playground.pasteVariables({
    input: { entry: { path: "samples/orders/process" }, dedup: { key: crypto.randomUUID(), windowSeconds: 60 } },
  });
  await playground.run();
  await playground.expectAnswer('"outcome": "STARTED"');
  const first = JSON.parse(await playground.answer()).data.execute.execution.id;
  await playground.run();
  await playground.expectAnswer('"outcome": "DUPLICATE"');
  expect(JSON.parse(await playground.answer()).data.execute.execution.id).toBe(first);
});

test("a live subscription in a tab lists events as they commit, newest first", async ({ playground }) => {
  await playground.open();
  await playground.tab("LiveEvents").click();
  await playground.run();
  await playground.expectAnswer('"CaughtUp"');

  const first = await execute(playground.url);
  await playground.expectAnswer(first);
  const second = await execute(playground.url);
  await playground.expectAnswer(second);
  const answer = await playground.answer();
  expect(answer.indexOf(second)).toBeLessThan(answer.indexOf(first));
  await playground.stop();
});

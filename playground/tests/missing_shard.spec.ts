import { expect, test, type Locator, type Page } from "@playwright/test";

import { expectAccessible, MODAL } from "./accessibility";
import { execute, graphql, register } from "./api";
import { Console } from "./console";
import { deadLetters } from "./dead_letters";
import { Deployment } from "./deployment";

/** Objects of the shard that can be read, and of the shard whose Postgres is stopped. */
interface Objects {
  executions: string[];
  /** Paths of subscriptions. */
  subscriptions: string[];
  /** Executions of the dead letters, among the newest ones of both shards. */
  deadLetters: string[];
}

const READ = 0;
const MISSING = 1;
let deployment: Deployment;
let objects: [Objects, Objects];

test.beforeAll(async () => {
  deployment = await Deployment.start({ lastShardHasOwnDatabase: true });
  objects = await objectsOnBothShards(deployment.url);
  await expect.poll(() => unpublishedEvents(deployment.url)).toEqual(["0", "0"]);
  await deployment.stopLastShard();
  await expect.poll(() => unavailableShards(deployment.url), { timeout: 30_000 }).toEqual([MISSING]);
});

test.afterAll(async () => {
  await deployment?.stop();
});

test("executions and subscriptions: the lists have those of the other shard, say what is missing, and lead to the cause", async ({ page }) => {
  const console = await open(page, "/executions", "Executions");
  await expect(missing(page)).toContainText("The database of shard 1 can't be read now. The data of the shard is missing here.");
  await expectRows(page, "Executions", objects[READ].executions, objects[MISSING].executions);
  await expect(page.getByRole("navigation", { name: "Numbers by status" })).toContainText("≥");
  await missing(page).getByRole("link", { name: "System view" }).click();
  await expect(console.title).toHaveText("System");
  await expect(page.getByRole("table", { name: "Shards" }).getByRole("row").nth(2)).toContainText("Unreachable");

  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Subscriptions", exact: true }).click();
  await expect(console.title).toHaveText("Subscriptions");
  await expect(missing(page)).toContainText("shard 1");
  await expectRows(page, "Subscriptions", objects[READ].subscriptions, objects[MISSING].subscriptions);
});

test("outbox: the list has the entries of the other shard, and says what is missing, accessibly", async ({ page }) => {
  await open(page, "/outbox?statuses=DEAD", "Outbox");
  await expect(missing(page)).toHaveCount(2);
  await expectRows(page, "Outbox entries", objects[READ].deadLetters, objects[MISSING].deadLetters);
  await expectAccessible(page, "missing-shard", '[role="alert"]');
});

test("events: the list has the published events, and says what is missing", async ({ page }) => {
  const [read, unread] = [objects[READ].executions[0] ?? "", objects[MISSING].executions[0] ?? ""];
  const console = await open(page, `/events?from=beginning&executions=${read},${unread}`, "Events");
  await expect(missing(page)).toContainText("The list has the events that were published before.");
  await expect(console.events.rowsOf(read).first()).toBeVisible();
  await console.events.rowsOf(unread).first().click();
  await expect(page.getByRole("complementary", { name: "Event" }).getByRole("alert")).toContainText("System view");
});

test("details of an object on the missing shard do not say that it does not exist", async ({ page }) => {
  await page.goto(`${deployment.url}/executions/${objects[MISSING].executions[0]}`);
  await expect(page.getByRole("alert")).toContainText("The System view shows which.");
  await expect(page.getByText("There is no execution with this id")).toHaveCount(0);
});

test("the overview names the shard once as a problem, its counts are lower bounds, and the palette says what it could not search", async ({
  page,
}) => {
  const console = await open(page, "/", "Overview");
  await expect(page.getByText("The database of shard 1 can't be reached.")).toBeVisible();
  await expect(page.getByText("No replica publishes the events of shard 1.")).toHaveCount(0);
  await expect(page.getByText("Shard 1 can't be reached, so its speed is unknown.")).toBeVisible();
  await expect(page.getByRole("link", { name: /Executions started/ })).toContainText("≥");
  await expect(page.getByRole("link", { name: /Executions started/ })).toContainText("without shard 1");
  await expect(missing(page.getByRole("region", { name: "Executions of the last 24 hours" }))).toContainText("shard 1");

  const palette = page.getByRole("dialog");
  await console.search("tests/shards/");
  await expect(missing(palette)).toContainText("shard 1");
  await expect(palette.getByText("Nothing found")).toHaveCount(0);
  await expectAccessible(page, "palette-of-missing-shard", MODAL);
  await page.keyboard.press("Escape");
  await console.search(objects[MISSING].executions[0] ?? "");
  await expect(palette.getByRole("alert")).toContainText("The System view shows which.");
  await expect(palette.getByText("Nothing found")).toHaveCount(0);
});

test("the catalog is complete, because the shards do not store it", async ({ page }) => {
  await open(page, "/catalog?prefix=tests/shards", "Catalog");
  const paths = objects.flatMap(({ subscriptions }) => subscriptions);
  await expectRows(page, "Catalog entries", paths, []);
  await expect(missing(page)).toHaveCount(0);
});

async function open(page: Page, path: string, title: string): Promise<Console> {
  const console = new Console(page, deployment.url);
  await console.open(path, title);
  return console;
}

function missing(within: Page | Locator) {
  return within.getByRole("alert").filter({ hasText: "Some data is missing" });
}

/** Waits until a table has the rows with some texts, and checks that it has no row with the others. */
async function expectRows(page: Page, table: string, present: readonly string[], absent: readonly string[]): Promise<void> {
  const rows = page.getByRole("table", { name: table, exact: true }).getByRole("row");
  for (const text of present) {
    await expect(rows.filter({ hasText: text }).first()).toBeVisible();
  }
  for (const text of absent) {
    await expect(rows.filter({ hasText: text })).toHaveCount(0);
  }
}

async function unpublishedEvents(url: string): Promise<readonly string[]> {
  const { eventStream } = await graphql<{ eventStream: { shards: { lagEvents: string }[] } }>(
    url,
    `{ eventStream { shards { lagEvents } } }`,
  );
  return eventStream.shards.map(({ lagEvents }) => lagEvents);
}

async function unavailableShards(url: string): Promise<readonly number[]> {
  const { executions } = await graphql<{ executions: { unavailableShards: number[] } }>(
    url,
    `{ executions(first: 1) { unavailableShards } }`,
  );
  return executions.unavailableShards;
}

/** Returns executions, dead letters and subscriptions that are on the first pages of their lists, of both shards. */
async function objectsOnBothShards(url: string): Promise<[Objects, Objects]> {
  const letters = await deadLettersOnBothShards(url);
  const subscriptions = await onBothShards(() => subscriptionOfNewPath(url));
  const executions = await onBothShards(async () => ofExecution(url, await execute(url)));
  const of = (shard: number) => ({
    executions: executions[shard] ?? [],
    deadLetters: letters[shard] ?? [],
    subscriptions: subscriptions[shard] ?? [],
  });
  return [of(READ), of(MISSING)];
}

interface Placed {
  text: string;
  shard: number;
}

/** Adds objects until both shards have one, and returns the last one of each. Many may come to one shard before. */
async function onBothShards(add: () => Promise<Placed>): Promise<string[][]> {
  const found: string[][] = [[], []];
  while (found.some((texts) => texts.length === 0)) {
    const { text, shard } = await add();
    found[shard] = [text];
  }
  return found;
}

/** Writes dead letters until both shards have one in the first page of the list, and returns the page's. */
async function deadLettersOnBothShards(url: string): Promise<string[][]> {
  for (;;) {
    await deadLetters(url, 1);
    const { outbox } = await graphql<{ outbox: { entries: { nodes: { execution: { id: string; shard: number } }[] } } }>(
      url,
      `{ outbox { entries(filter: { statuses: [DEAD] }, first: 25) { nodes { execution { id shard } } } } }`,
    );
    const found: string[][] = [[], []];
    for (const { execution } of outbox.entries.nodes) {
      found[execution.shard]?.push(execution.id);
    }
    if (found.every((executions) => executions.length > 0)) {
      return found;
    }
  }
}

async function ofExecution(url: string, id: string): Promise<Placed> {
  const { execution } = await graphql<{ execution: { shard: number } }>(url, `query ($id: ID!) { execution(id: $id) { shard } }`, {
    id,
  });
  return { text: id, shard: execution.shard };
}

async function subscriptionOfNewPath(url: string): Promise<Placed> {
  const path = `tests/shards/${crypto.randomUUID()}`;
  const spec = "source: nats, mode: pull, activation: continuous, stream: samples, subject: samples.orders, consumer: none";
  const dispatch = "dispatch: { playbook: samples/orders/process, payload_from: message.json }";
  const content = `apiVersion: noetl.io/v2\nkind: Subscription\nmetadata: { name: test, path: ${path} }\nspec: { ${spec}, ${dispatch} }\n`;
  await register(url, content);
  const { registerSubscription } = await graphql<{ registerSubscription: { subscription: { shard: number } } }>(
    url,
    `mutation ($path: String!) { registerSubscription(input: { path: $path }) { subscription { shard } } }`,
    { path },
  );
  return { text: path, shard: registerSubscription.subscription.shard };
}

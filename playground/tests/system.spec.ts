import { expect, test } from "./console";

test("the system names the health, leader, lease and epoch of each shard, the replicas and the settings", async ({ console, page }) => {
  await console.open("/system", "System");
  const shards = page.getByRole("table", { name: "Shards" });
  await expect(shards.getByRole("row")).toHaveCount(3);
  await expect(shards).toContainText("Available");
  await expect(shards).toContainText("2,520 (50.0 %)");
  await expect(page.getByRole("region", { name: "Shards: databases" })).toContainText(/No shard is slow: |Shard \d is slow: /);
  const feeds = page.getByRole("table", { name: "Event feeds" });
  await expect(feeds.getByRole("row")).toHaveCount(3);
  await expect(feeds).toContainText("noetl_events_1");
  await expect(feeds.getByText(/^in \d/).first()).toBeVisible();
  await expect(page.getByRole("table", { name: "Outbox by shard" }).getByRole("row")).toHaveCount(3);
  await expect(page.getByRole("region", { name: "Limits of a request" })).toContainText("Items on a page");

  const replicas = page.getByRole("table", { name: "Replicas" });
  await expect(replicas.getByRole("row")).toHaveCount(2);
  await expect(replicas).toContainText("This page");
  await expect(replicas.getByRole("cell", { name: "0, 1" })).toBeVisible();
  const settings = page.getByRole("table", { name: "Settings" });
  await expect(settings.getByRole("row", { name: "NOETL_OUTBOX_MAX_ATTEMPTS 20" })).toContainText("Default");
});

test("the charts keep the figures while another view is open", async ({ console, page }) => {
  await console.open("/", "Overview");
  await expect(page.getByRole("img", { name: /^Events published per second: \d/ })).toBeVisible();
  await page.getByRole("link", { name: /^Feed lag/ }).click();
  await expect(console.title).toHaveText("System");
  await expect(page).toHaveURL(/\/system#feeds$/);
  await expect(page.getByRole("img", { name: /^Events published per second: \d/ })).toBeVisible();
  await expect(page.getByRole("img", { name: /^Slowest round trip to a database in milliseconds: / })).toBeVisible();
});

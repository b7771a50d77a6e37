import { execute } from "./api";
import { expect, test } from "./console";
import { discardDeadLetters } from "./dead_letters";

test("the overview says in words whether the system is healthy", async ({ console, page }) => {
  await discardDeadLetters(console.url);
  await console.open("/", "Overview");
  const health = page.getByRole("region", { name: "Health" });
  await expect(health.getByRole("status")).toHaveText("The system is healthy.");
  await expect(page.getByRole("table", { name: "Shards" }).getByRole("row")).toHaveCount(3);
  await expect(console.connection).toHaveText("Live");
});

test("the overview counts started executions and links to them", async ({ console, page }) => {
  await execute(console.url);
  await console.open("/", "Overview");
  const started = page.getByRole("link", { name: /^Executions started/ });
  await expect(started).toContainText(/[1-9]/);
  await started.click();
  await expect(page).toHaveURL(/\/executions\?since=5m/);
  await expect(console.title).toHaveText("Executions");
});

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

test("the watch mode shows the overview without navigation and in larger type, until Esc is pressed", async ({ console, page }) => {
  await console.open("/", "Overview");
  const navigation = page.getByRole("navigation", { name: "Views" });
  const size = () => console.title.evaluate((title) => parseFloat(getComputedStyle(title).fontSize));
  const normal = await size();
  await page.getByRole("link", { name: "Watch mode" }).click();
  await expect(navigation).toBeHidden();
  await expect.poll(size).toBe(1.5 * normal);

  await page.reload();
  await expect(page.getByRole("region", { name: "Health" })).toBeVisible();
  await expect(navigation).toBeHidden();
  await console.search("audit");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(page).toHaveURL(/watch=1/);
  // The choice of a period stays in the watch mode, and its field takes the focus.
  await page.getByText("30 d", { exact: true }).click();
  await expect(page.getByRole("radio", { name: "30 d" })).toBeFocused();
  await expect(page).toHaveURL(/watch=1/);
  await expect(navigation).toBeHidden();
  await page.keyboard.press("Escape");
  await expect(navigation).toBeVisible();
  await expect(page).toHaveURL(/\/\?period=30d$/);
  await expect.poll(size).toBe(normal);
});

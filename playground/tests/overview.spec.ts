import { expectAccessible } from "./accessibility";
import { execute, graphql, report } from "./api";
import { expect, test } from "./console";
import { discardDeadLetters } from "./dead_letters";

test("the overview says in words whether the system is healthy, counts started executions and links to them", async ({
  console,
  page,
}) => {
  await discardDeadLetters(console.url);
  await execute(console.url);
  await console.open("/", "Overview");
  const health = page.getByRole("region", { name: "Health" });
  await expect(health.getByRole("status")).toHaveText("The system is healthy.");
  await expect(page.getByRole("table", { name: "Shards" }).getByRole("row")).toHaveCount(3);
  await expect(console.connection).toHaveText("Live");

  const started = page.getByRole("link", { name: /^Executions started/ });
  await expect(started).toContainText(/[1-9]/);
  // No list has what this figure counts.
  await expect(page.getByText("Messages executed")).toBeVisible();
  await expect(page.getByRole("link", { name: /^Messages executed/ })).toHaveCount(0);
  await started.click();
  await expect(page).toHaveURL(/\/executions\?since=5m/);
  await expect(console.title).toHaveText("Executions");
});

test("the number of failed executions leads to those that failed in its time", async ({ console, page }) => {
  const [failed, other] = [await execute(console.url), await execute(console.url)];
  await report(console.url, failed, [{ type: "playbook.failed", status: "FAILED" }]);
  const status = async () => {
    const { execution } = await graphql<{ execution: { status: string } }>(
      console.url,
      `query ($id: ID!) { execution(id: $id) { status } }`,
      { id: failed },
    );
    return execution.status;
  };
  await expect.poll(status).toBe("FAILED");
  await console.open("/", "Overview");
  await page.getByRole("link", { name: /^Executions failed/ }).click();
  await expect(page).toHaveURL(/statuses=FAILED&endedSince=5m/);
  const rows = page.getByRole("table", { name: "Executions" }).getByRole("row");
  await expect(rows.filter({ hasText: failed })).toContainText("Failed");
  await expect(rows.filter({ hasText: other })).toHaveCount(0);
});

test("a chart without values has no axis, and another theme changes its colours at once", async ({ console, page }) => {
  let [passed, allowed] = [0, 1];
  await page.routeWebSocket(/\/graphql$/, (route) => {
    const server = route.connectToServer();
    server.onMessage((message) => {
      const isStatus = String(message).includes('"systemStatus"');
      passed += isStatus ? 1 : 0;
      if (!isStatus || passed <= allowed) {
        route.send(message);
      }
    });
  });
  await page.emulateMedia({ colorScheme: "light" });
  await console.open("/", "Overview");
  const chart = page.getByRole("img", { name: /^Events published per second/ });
  await expect(chart).toHaveText("No values yet");
  await expect(chart.locator("canvas")).toHaveCount(0);
  allowed = passed + 1;
  await expect(chart.locator("canvas")).toBeVisible();
  // No further figure arrives, so only the theme can change the drawing.
  const drawn = () => chart.locator("canvas").evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
  await expect.poll(async () => (await drawn()) === (await drawn())).toBe(true);
  const light = await drawn();
  await page.emulateMedia({ colorScheme: "dark" });
  await expect.poll(drawn).not.toBe(light);
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
  await expectAccessible(page, "watch-mode");
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
  await page.reload();
  await expect(page.getByRole("heading", { name: "Executions of the last 30 days" })).toBeVisible();
});

import { expectAccessible } from "./accessibility";
import { execute } from "./api";
import { Console, expect, test } from "./console";

test("the navigation opens each view, and the history leads back", async ({ console, page }) => {
  await console.open("/", "Overview");
  const navigation = page.getByRole("navigation", { name: "Views" });
  await navigation.getByRole("link", { name: "Events" }).click();
  await expect(console.title).toHaveText("Events");
  await expect(page).toHaveTitle("Events · NoETL");
  await page.goBack();
  await expect(console.title).toHaveText("Overview");
});

test("an unknown address shows the console's own page, from which the navigation leads on", async ({ controlPlane, page }) => {
  const console = new Console(page, controlPlane.url);
  const response = await page.goto(`${controlPlane.url}/nonsense/below`);
  expect(response?.status()).toBe(404);
  await expect(console.title).toHaveText("There is no such page");
  await expectAccessible(page, "unknown-page", "main");
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "System" }).click();
  await expect(console.title).toHaveText("System");
});

test("the command palette opens a view by name", async ({ console, page }) => {
  await console.open("/", "Overview");
  await page.keyboard.press("ControlOrMeta+K");
  await page.keyboard.type("events as");
  await expect(page.getByRole("dialog").getByRole("textbox")).toHaveValue("events as");
  await page.keyboard.press("Enter");
  await expect(console.title).toHaveText("Events");
});

test("a key that is pressed while the command palette closes opens it again", async ({ console, page }) => {
  await console.open("/", "Overview");
  await console.search("events");
  await page.evaluate(() => {
    const press = (key: string, ctrlKey: boolean) =>
      document.activeElement?.dispatchEvent(new KeyboardEvent("keydown", { key, code: key, ctrlKey, bubbles: true, cancelable: true }));
    press("Escape", false);
    press("k", true);
  });
  await expect(page.getByRole("dialog")).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(console.title).toHaveText("Events");
});

test("an id in the command palette leads to its object, and a path to its executions", async ({ console, page }) => {
  const execution = await execute(console.url);
  await console.open("/", "Overview");
  await console.search("samples/orders/process");
  await expect(page.getByRole("button", { name: `Execution ${execution}` })).toBeVisible();
  await console.search(execution);
  await page.getByRole("button", { name: `Execution ${execution}` }).click();
  await expect(page).toHaveURL(new RegExp(execution));
});

test("on a narrow screen, the navigation is behind a button and nothing is cut off", async ({ console, page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await console.open("/", "Overview");
  await page.getByRole("button", { name: "Open the navigation" }).click();
  await page.getByRole("link", { name: "Events", exact: true }).click();
  await expect(console.title).toHaveText("Events");
  const cutOff = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
  expect(cutOff).toBe(false);
});

test("the first press of Tab leads to the content", async ({ console, page }) => {
  await console.open("/system", "System");
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Go to the content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();
  await expect(console.title).toHaveText("System");
});

import { expectAccessible, NARROW } from "./accessibility";
import { execute, graphql } from "./api";
import { Console, expect, test } from "./console";

test("the first press of Tab leads to the content, the navigation to each view, and the history back", async ({ console, page }) => {
  await console.open("/system", "System");
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Go to the content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();
  await expect(console.title).toHaveText("System");

  const view = (name: string) => page.getByRole("navigation", { name: "Views" }).getByRole("link", { name, exact: true });
  await view("Catalog").click();
  await expect(console.title).toHaveText("Catalog");
  await expect(page).toHaveTitle("Catalog · NoETL");
  await page.goBack();
  await expect(console.title).toHaveText("System");

  await test.step("on a narrow screen, the navigation is behind a button and nothing is cut off", async () => {
    await page.setViewportSize(NARROW);
    await page.getByRole("button", { name: "Open the navigation" }).click();
    await view("Events").click();
    await expect(console.title).toHaveText("Events");
    const cutOff = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
    expect(cutOff).toBe(false);
  });
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

test("the command palette opens a view by name, an id leads to its object, and a path to its executions", async ({ console, page }) => {
  const execution = await execute(console.url);
  const { catalogEntry } = await graphql<{ catalogEntry: { id: string } }>(
    console.url,
    `{ catalogEntry(by: { path: "samples/orders/process" }) { id } }`,
  );
  await console.open("/", "Overview");
  // Keys that are typed while it is loaded are not lost.
  await page.keyboard.press("ControlOrMeta+K");
  await page.keyboard.type("events as");
  await expect(page.getByRole("dialog").getByRole("textbox")).toHaveValue("events as");
  await page.keyboard.press("Enter");
  await expect(console.title).toHaveText("Events");

  await console.search("samples/orders/process");
  await expect(page.getByRole("button", { name: `Execution ${execution}` })).toBeVisible();
  await console.search(execution);
  await page.getByRole("button", { name: `Execution ${execution}` }).click();
  await expect(page).toHaveURL(new RegExp(execution));
  await console.search(catalogEntry.id);
  await page.getByRole("button", { name: "Catalog entry samples/orders/process" }).click();
  await expect(page).toHaveURL(/\/catalog\/samples\/orders\/process\?version=\d/);

  await test.step("a key that is pressed while it closes opens it again", async () => {
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
});

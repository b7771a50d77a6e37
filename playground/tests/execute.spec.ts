import { register } from "./api";
import { expect, test } from "./console";

const PATH = "samples/orders/process";

test("a form with the workload's defaults starts an execution, and links to it", async ({ console, page }) => {
  await console.open("/execute", "Execute");
  await page.getByRole("combobox", { name: "Catalog path" }).fill("orders/proc");
  await page.getByRole("option", { name: new RegExp(PATH) }).click();
  await expect(page).toHaveURL(/path=samples/);
  await expect(page.getByLabel("currency")).toHaveValue("EUR");
  await page.getByLabel("currency").fill("USD");
  await page.getByLabel("Dedup key").fill(crypto.randomUUID());
  await page.getByRole("button", { name: "Execute", exact: true }).click();
  const outcome = page.getByRole("status").filter({ hasText: "The request started an execution." });
  const id = await outcome.getByRole("link").innerText();

  await page.getByRole("button", { name: "Execute", exact: true }).click();
  const duplicate = page.getByRole("status").filter({ hasText: "An earlier request with this key" });
  await expect(duplicate.getByRole("link")).toHaveText(id);
  await duplicate.getByRole("link").click();
  await expect(console.title).toHaveText(PATH);
  await page.getByRole("tab", { name: "Input and result" }).click();
  await expect(page.getByRole("region", { name: "Input" })).toContainText('"USD"');

  await page.getByRole("link", { name: "Execute with changes…" }).click();
  await expect(page.getByRole("note")).toContainText(id);
  await expect(page.getByLabel("currency")).toHaveValue("USD");
});

test("invalid values are refused at their fields", async ({ console, page }) => {
  await console.open(`/execute?path=${PATH}`, "Execute");
  await page.getByLabel("order").fill("{");
  await expect(page.getByText("This is not JSON")).toBeVisible();
  await expect(page.getByRole("button", { name: "Execute", exact: true })).toHaveAttribute("aria-disabled", "true");
  await page.getByLabel("order").fill("{}");
  await page.getByLabel("Pool").fill("two words");
  await page.getByRole("button", { name: "Execute", exact: true }).click();
  await expect(page.getByText("The server refused the request. The marked fields say why.")).toBeVisible();
  await expect(page.getByLabel("Pool")).toHaveAttribute("aria-invalid", "true");
});

test("a chosen version is run, with the defaults of its workload", async ({ console, page }) => {
  const path = await twoVersions(console.url);
  await console.open(`/execute?path=${path}`, "Execute");
  await expect(page.getByRole("combobox", { name: "Version" })).toHaveValue("Newest (now version 2)");
  await expect(page.getByLabel("greeting")).toHaveValue("second");
  await page.getByRole("combobox", { name: "Version" }).click();
  await page.getByRole("option", { name: /^Version 1,/ }).click();
  await expect(page).toHaveURL(/version=1/);
  await expect(page.getByLabel("greeting")).toHaveValue("first");
  await page.getByRole("button", { name: "Execute", exact: true }).click();
  await page.getByRole("status").filter({ hasText: "The request started an execution." }).getByRole("link").click();
  await expect(console.title).toHaveText(path);
  await expect(page.getByText("version 1", { exact: false }).first()).toBeVisible();

  await page.getByRole("link", { name: "Execute with changes…" }).click();
  await expect(page.getByRole("note")).toContainText("which ran version 1. This request runs version 2.");
});

test("a form has the fields in the order of the document, says what is missing, and keeps each digit", async ({ console, page }) => {
  const path = await registerWorkload(console.url, '{ zone: eu, "10": a, "2": b, amount: 9007199254740993, customer: null, limits: {} }');
  await console.open(`/execute?path=${path}`, "Execute");
  const names = [/^zone/, /^10/, /^2/, /^amount/, /^customer/, /^limits/, /^Additional fields/];
  await expect(page.getByRole("region", { name: "Workload" }).locator("label")).toHaveText(names);
  const button = page.getByRole("button", { name: "Execute", exact: true });
  await expect(button).toHaveAccessibleDescription("The field customer needs a valid value.");
  await expect(page.getByText("The field customer needs a valid value.")).toBeVisible();
  await page.getByLabel("limits").fill("{");
  await expect(button).toHaveAccessibleDescription("These fields need valid values: customer, limits.");

  await page.getByLabel("customer").fill('"a"');
  await page.getByLabel("limits").fill('{ "max": 12345678901234567891 }');
  await expect(page.getByLabel("amount")).toHaveValue("9007199254740993");
  await page.getByLabel("amount").fill("9007199254740995");
  await expect(button).toHaveAccessibleDescription("");
  await expect(page.getByRole("region", { name: "Request" })).toContainText("9007199254740995");
  const sent = page.waitForRequest((request) => request.postData()?.includes("mutation Execute(") ?? false);
  await button.click();
  expect((await sent).postData()).toContain('"amount":9007199254740995');
  await page.getByRole("status").filter({ hasText: "The request started an execution." }).getByRole("link").click();
  await page.getByRole("tab", { name: "Input and result" }).click();
  const input = page.getByRole("region", { name: "Input" });
  await expect(input).toContainText("9007199254740995");
  await expect(input).toContainText("12345678901234567891");
  await page.getByRole("link", { name: "Execute with changes…" }).click();
  await expect(page.getByLabel("amount")).toHaveValue("9007199254740995");
});

/** Registers two versions of a new path with different defaults, and returns the path. */
async function twoVersions(url: string): Promise<string> {
  const path = await registerWorkload(url, "{ greeting: first }");
  return registerWorkload(url, "{ greeting: second }", path);
}

/** Registers a version of a path, by default of a new one, with a workload, and returns the path. */
async function registerWorkload(url: string, workload: string, path = `tests/execute/${crypto.randomUUID()}`): Promise<string> {
  const head = `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: test, path: ${path} }\n`;
  const content = `${head}workload: ${workload}\nworkflow:\n  - step: start\n    tool: { kind: noop }\n`;
  await register(url, content);
  return path;
}

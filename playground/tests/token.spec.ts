import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "@playwright/test";

import { BINARY, startControlPlane, type ControlPlane } from "./control_plane";
import { Console } from "./console";

let controlPlane: ControlPlane;
let token: string;

test.beforeAll(async () => {
  test.setTimeout(180_000);
  const tokens = join(mkdtempSync(join(tmpdir(), "noetl-tokens-")), "tokens");
  writeFileSync(tokens, "");
  token = execFileSync(BINARY, ["token", "new", "--role", "operator", "--file", tokens], { encoding: "utf8" }).trim();
  controlPlane = await startControlPlane({ NOETL_AUTH_TOKENS: tokens });
});

test.afterAll(async () => {
  await controlPlane?.stop();
});

test("a user signs in, and the token is sent with requests and on the socket", async ({ page }) => {
  const console = new Console(page, controlPlane.url);
  await page.goto(`${controlPlane.url}/events`);
  const dialog = page.getByRole("dialog", { name: "Sign in" });
  const input = dialog.getByLabel("Token", { exact: true });
  await expect(dialog).toContainText("This server requires a token.");
  await input.fill("noetl_of-another-server");
  await input.press("Enter");

  // The token is refused, so the dialog opens again.
  await expect(dialog).toContainText("The server refuses your token");
  await expect(input).toHaveValue("");
  const opened = page.waitForEvent("websocket", { predicate: (socket) => socket.url().endsWith("/graphql") });
  await input.fill(token);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await expect(dialog).toBeHidden();
  expect((await opened).url()).not.toContain(token);
  await expect(console.events.state).toHaveText("Live");
  await page.getByRole("button", { name: "User and settings" }).click();
  await expect(page.getByText("Role: operator")).toBeVisible();
});

test("the token is kept only in the memory of the page", async ({ page }) => {
  await page.goto(controlPlane.url);
  const dialog = page.getByRole("dialog", { name: "Sign in" });
  await dialog.getByLabel("Token", { exact: true }).fill(token);
  await page.keyboard.press("Enter");
  await expect(dialog).toBeHidden();
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  expect(stored).not.toContain(token);
  await page.reload();
  await expect(dialog).toBeVisible();
});

import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, type Page } from "@playwright/test";

import { execute, graphql } from "./api";
import { BINARY, startControlPlane, type ControlPlane } from "./control_plane";
import { Console } from "./console";

let controlPlane: ControlPlane;
let tokens: string;
let token: string;
/** Token of a worker, which starts executions. */
let worker: string;

test.beforeAll(async () => {
  tokens = join(mkdtempSync(join(tmpdir(), "noetl-tokens-")), "tokens");
  writeFileSync(tokens, "");
  token = newToken("--role", "operator");
  worker = newToken("--role", "worker");
  controlPlane = await startControlPlane({ NOETL_AUTH_TOKENS: tokens });
});

test.afterAll(async () => {
  await controlPlane?.stop();
});

/** Life of a token that expires during a test. It begins when the page is open. */
const EXPIRES_MS = 15_000;

/** Adds a token to the file, which the server reads when it changes. */
function newToken(...options: string[]): string {
  return execFileSync(BINARY, ["token", "new", ...options, "--file", tokens], { encoding: "utf8" }).trim();
}

/** Waits until the server knows a token. */
async function known(newest: string): Promise<void> {
  await expect(async () => {
    await graphql(controlPlane.url, "{ viewer { subject } }", {}, newest);
  }).toPass();
}

function dialogOf(page: Page) {
  return page.getByRole("dialog", { name: "Sign in" });
}

async function expectLive(page: Page): Promise<void> {
  await expect(page.getByRole("status", { name: "Live connection" })).toHaveText("Live");
}

/** Returns what the browser keeps for a tab. */
async function keptBy(page: Page): Promise<string> {
  return page.evaluate(() => JSON.stringify({ ...sessionStorage }));
}

async function signIn(page: Page, text: string): Promise<void> {
  const dialog = dialogOf(page);
  await dialog.getByLabel("Token", { exact: true }).fill(text);
  await dialog.getByRole("button", { name: "Sign in" }).click();
  await expect(dialog).toBeHidden();
}

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

test("a reload for a new version and a new tab keep the sign-in, and a sign-out ends it in every tab", async ({ page, context }) => {
  const [second, third] = [await context.newPage(), await context.newPage()];
  const { title } = new Console(page, controlPlane.url);
  await page.goto(controlPlane.url);
  await signIn(page, token);
  await expect(title).toHaveText("Overview");
  await page.route("**/assets/**", (route) => route.fulfill({ status: 404 }));
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Catalog" }).click();
  await expect(title).toHaveText("This view needs a reload");
  await page.unroute("**/assets/**");
  await page.getByRole("button", { name: "Reload" }).click();
  await expect(title).toHaveText("Catalog");
  await expectLive(page);
  await expect(dialogOf(page)).toHaveCount(0);
  await second.goto(`${controlPlane.url}/events`);
  await third.goto(`${controlPlane.url}/system`);
  await Promise.all([second, third].map(expectLive));
  await expect(dialogOf(second)).toHaveCount(0);
  const elsewhere = await page.evaluate(() => JSON.stringify([{ ...localStorage }, document.cookie]));
  expect(elsewhere).not.toContain(token);

  // The third tab shows no page of the console while the user signs out.
  await third.goto("about:blank");
  await page.getByRole("button", { name: "User and settings" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await third.goBack();
  for (const tab of [page, second, third]) {
    await expect(dialogOf(tab)).toContainText("This server requires a token.");
    expect(await keptBy(tab)).not.toContain(token);
  }

  await signIn(page, token);
  await Promise.all([second, third].map(expectLive));
  await expect(dialogOf(second)).toBeHidden();
});

test("when the token expires under an open page, the page asks for another one and loses nothing", async ({ page }) => {
  const console = new Console(page, controlPlane.url);
  const before = await execute(controlPlane.url, worker);
  await page.goto(`${controlPlane.url}/events?types=playbook_*&from=beginning`);
  await expect(dialogOf(page)).toContainText("This server requires a token.");
  const expires = new Date(Date.now() + EXPIRES_MS).toISOString();
  const short = newToken("--role", "viewer", "--expires", expires);
  await known(short);
  await signIn(page, short);
  await console.events.following();
  await console.events.rowsOf(before).first().click();
  const details = page.getByRole("complementary", { name: "Event" });
  await expect(details.getByRole("link", { name: before })).toBeVisible();
  const address = page.url();

  const dialog = page.getByRole("dialog", { name: "Sign in" });
  await expect(dialog).toContainText("The server refuses your token", { timeout: 4 * EXPIRES_MS });
  expect(await keptBy(page)).not.toContain(short);
  const missed = await execute(controlPlane.url, worker);
  await signIn(page, token);
  await expect(console.events.rowsOf(missed).first()).toBeVisible();
  await expect(console.events.rowsOf(before).filter({ hasText: "playbook_started" })).toHaveCount(1);
  await expect(details.getByRole("link", { name: before })).toBeVisible();
  expect(page.url()).toBe(address);
});

test("after a sign-out, nothing of the user stays on the page", async ({ page }) => {
  const console = new Console(page, controlPlane.url);
  const execution = await execute(controlPlane.url, worker);
  await page.goto(`${controlPlane.url}/events?from=beginning`);
  await signIn(page, token);
  await expect(console.events.rowsOf(execution).first()).toBeVisible();
  await page.getByRole("button", { name: "User and settings" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("dialog", { name: "Sign in" })).toContainText("This server requires a token.");
  await expect(page.getByText(execution)).toHaveCount(0);
  await expect(page.getByText("Role: operator")).toHaveCount(0);
  await expect(page.getByText(/^Replica/)).toHaveCount(0);
});

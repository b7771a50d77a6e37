import { expect, test, type Page } from "@playwright/test";

import { expectPartAccessible, NARROW, WIDE } from "./accessibility";
import { startControlPlane, type ControlPlane } from "./control_plane";
import { PREFIX, PrefixProxy } from "./prefix_proxy";
import { Provider } from "./provider";

const provider = new Provider();
let controlPlane: ControlPlane;

/** Life of a token that expires during a test, in seconds. */
const EXPIRES_SECONDS = 12;

test.beforeAll(async () => {
  await provider.start();
  controlPlane = await startControlPlane(provider.settings);
});

test.beforeEach(() => {
  Object.assign(provider, { behaviour: "accept", seconds: 600, down: false, redeemed: 0 });
});

test.afterAll(async () => {
  await controlPlane?.stop();
  await provider.stop();
});

/** The sign-in dialog. */
class SignIn {
  constructor(readonly page: Page) {}

  get dialog() {
    return this.page.getByRole("dialog", { name: "Sign in" });
  }

  get button() {
    return this.dialog.getByRole("button", { name: "Sign in with your organization" });
  }

  get failure() {
    return this.dialog.getByRole("alert");
  }

  /** Presses the button and returns the window that opens. */
  async openWindow(): Promise<Page> {
    const opened = this.page.waitForEvent("popup");
    await this.button.click();
    return opened;
  }
}

async function open(page: Page, path = "/"): Promise<SignIn> {
  await page.goto(controlPlane.url + path);
  return new SignIn(page);
}

async function expectSignedIn(page: Page): Promise<void> {
  await expect(page.getByRole("button", { name: "User and settings" })).toHaveText("oidc:ann");
}

// First, because the server keeps what it knows of the provider for a while.
test("while the provider is down, the dialog says so, and a token can still be used", async ({ page }) => {
  provider.down = true;
  const signIn = await open(page);
  await expect(signIn.failure).toContainText("The provider can't be used");
  await expect(signIn.dialog.getByLabel("Token", { exact: true })).toBeEnabled();
  await expect(signIn.button).toBeHidden();
  provider.down = false;
  await signIn.dialog.getByRole("button", { name: "Try again" }).click();
  provider.behaviour = "wait";
  const opened = await signIn.openWindow();
  await expect(opened.getByRole("heading", { name: "Name and password" })).toBeVisible();
});

test("a user signs in at the provider, and a reload needs no other sign-in", async ({ page }) => {
  const hosts = new Set<string>();
  page.on("request", (request) => hosts.add(new URL(request.url()).origin));
  const signIn = await open(page, "/events?types=playbook_*");
  const address = page.url();
  const opened = await signIn.openWindow();
  await expect(signIn.dialog).toBeHidden();
  await expect(() => expect(opened.isClosed()).toBe(true)).toPass();
  await expectSignedIn(page);
  await expect(page.getByRole("status", { name: "Live connection" })).toHaveText("Live");

  expect(page.url()).toBe(address);
  expect(provider.redeemed).toBe(1);
  expect([...hosts]).toEqual([controlPlane.url]);
  const elsewhere = await page.evaluate(() => JSON.stringify([{ ...localStorage }, document.cookie]));
  expect(elsewhere).not.toContain("eyJ");
  await page.reload();
  await expectSignedIn(page);
  expect(provider.redeemed).toBe(1);
});

test("when the token expires under an open page, the same dialog signs in again and loses nothing", async ({ page }) => {
  provider.seconds = EXPIRES_SECONDS;
  const signIn = await open(page, "/catalog?text=orders");
  await signIn.openWindow();
  await expectSignedIn(page);
  const entry = page.getByRole("link", { name: "samples/orders/process" });
  await expect(entry.first()).toBeVisible();
  const address = page.url();

  await expect(signIn.dialog).toContainText("The server refuses your token", { timeout: 3_000 * EXPIRES_SECONDS });
  provider.seconds = 600;
  await signIn.openWindow();
  await expect(signIn.dialog).toBeHidden();
  await expectSignedIn(page);
  await expect(entry.first()).toBeVisible();
  expect(page.url()).toBe(address);
  expect(provider.redeemed).toBe(2);
});

test("a refusal of the provider is shown with advice, accessibly, and the next attempt succeeds", async ({ page }) => {
  provider.behaviour = "refuse";
  const signIn = await open(page);
  const opened = await signIn.openWindow();
  await expect(signIn.failure).toContainText("The provider refused the sign-in: The user has no access. (access_denied)");
  await expect(signIn.failure).toContainText("ask your administrator");
  await expect(() => expect(opened.isClosed()).toBe(true)).toPass();
  for (const size of [NARROW, WIDE]) {
    await page.setViewportSize(size);
    await expectPartAccessible(page, `sign-in-${size.width}`, "[role=dialog]");
  }
  provider.behaviour = "accept";
  await signIn.openWindow();
  await expect(signIn.dialog).toBeHidden();
});

test("a closed or blocked window is reported", async ({ page }) => {
  provider.behaviour = "wait";
  const signIn = await open(page);
  const opened = await signIn.openWindow();
  await expect(signIn.dialog.getByRole("status")).toContainText("Waiting for the sign-in window.");
  await expect(opened.getByRole("heading", { name: "Name and password" })).toBeVisible();
  expect(await opened.evaluate(() => globalThis.opener === null)).toBe(true);
  await opened.close();
  await expect(signIn.dialog.getByRole("status")).toContainText("The sign-in window is closed.");

  await page.evaluate(() => void (globalThis.open = () => null));
  await signIn.button.click();
  await expect(signIn.failure).toContainText("The browser blocked the sign-in window.");
});

test("a reply with another state is ignored", async ({ page, context }) => {
  provider.behaviour = "wait";
  const signIn = await open(page);
  await signIn.openWindow();
  const stranger = await context.newPage();
  await stranger.goto(`${controlPlane.url}/signed-in?state=of-another-page&code=stolen`);
  await expect(stranger.getByRole("status")).toContainText("No page of the console waits for this sign-in any more.");
  await expect(signIn.dialog.getByRole("status")).toContainText("Waiting for the sign-in window.");
  expect(provider.redeemed).toBe(0);
});

test("behind a proxy with a path prefix, the provider sends the window to an address below the prefix", async ({ page }) => {
  const proxy = await PrefixProxy.start("nginx", { server: controlPlane.url, strips: true });
  try {
    await page.goto(`${proxy.url}/events`);
    await new SignIn(page).openWindow();
    await expectSignedIn(page);
    expect(new URL(page.url()).pathname).toBe(`${PREFIX}/events`);
  } finally {
    await proxy.stop();
  }
});

test("an error of the server during the exchange is shown", async ({ page }) => {
  const signIn = await open(page);
  await expect(signIn.button).toBeVisible();
  provider.down = true;
  await signIn.openWindow();
  await expect(signIn.failure).toContainText("The provider can't be used");
  await expect(signIn.failure).toContainText("Try again later, or use a token.");
});

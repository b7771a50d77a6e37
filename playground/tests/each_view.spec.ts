import type { Page } from "@playwright/test";

import { expectAccessible, expectOtherColours } from "./accessibility";
import { execute } from "./api";
import { expect, test } from "./console";
import { VIEWS } from "./views";

/** Time without a request after which a page is complete. Playwright's "networkidle" can miss the end of a worker's request. */
const QUIET_MS = 500;
/** The view with a filter and a table, whose parts on wide and on narrow screens the other views have too. */
const WITH_ALL_PARTS = "executions";

/**
 * Each view is opened by its address. The browser reaches only this machine (`playwright.config.ts`), so a request to another
 * host fails.
 */
for (const { name, path, title } of VIEWS) {
  test(`${name} is a deep link, needs no other host, violates no policy, has no issue of accessibility, and is not cut off`, async ({
    console,
    page,
  }) => {
    await execute(console.url);
    const { faults, quietMs } = watchRequests(page, console.url);
    await page.addInitScript(recordViolations);
    await console.open(path, title);
    await expectStrictPolicy(console.url + path);
    await expect(console.connection).toHaveText("Live");
    await expect(page.getByLabel("Loading")).toHaveCount(0);
    await expect.poll(quietMs).toBeGreaterThan(QUIET_MS);
    expect(faults).toEqual([]);
    expect(await page.evaluate(() => (window as unknown as Recorder).violations)).toEqual([]);
    await test.step("accessibility", async () => {
      await expectAccessible(page, name);
      if (name === WITH_ALL_PARTS) {
        await expectOtherColours(page, name);
      }
    });
  });
}

/** Checks that the policy of a page allows no other host and no inline script. */
async function expectStrictPolicy(address: string): Promise<void> {
  const policy = (await fetch(address)).headers.get("content-security-policy") ?? "";
  const scripts = /script-src[^;]*/.exec(policy)?.[0] ?? /default-src[^;]*/.exec(policy)?.[0];
  expect(scripts).toContain("'self'");
  expect(scripts).not.toContain("unsafe");
  expect(policy).not.toMatch(/https?:|unsafe-eval|\*/);
}

interface Recorder {
  violations: string[];
}

function recordViolations(): void {
  const recorder = window as unknown as Recorder;
  recorder.violations = [];
  document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
    recorder.violations.push(`${violatedDirective} ${blockedURI}`);
  });
}

interface Requests {
  /** Grows with each request to another host, each failed request and each error of the server. */
  faults: string[];
  /** Returns the milliseconds since the last request began or ended. */
  quietMs: () => number;
}

function watchRequests(page: Page, url: string): Requests {
  const faults: string[] = [];
  const { host } = new URL(url);
  let last = Date.now();
  const note = () => {
    last = Date.now();
  };
  page.on("requestfinished", note);
  page.on("request", (request) => {
    note();
    const address = new URL(request.url());
    if (!["data:", "blob:"].includes(address.protocol) && address.host !== host) {
      faults.push(`foreign: ${request.url()}`);
    }
  });
  page.on("requestfailed", (request) => {
    note();
    faults.push(`failed: ${request.url()} ${request.failure()?.errorText}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400) {
      faults.push(`${response.status()}: ${response.url()}`);
    }
  });
  return { faults, quietMs: () => Date.now() - last };
}

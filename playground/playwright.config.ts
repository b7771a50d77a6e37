import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "@playwright/test";

const CHROMIUM_PATHS = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/usr/bin/google-chrome-stable",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  // Installed by scripts/prepare where the system has none.
  fileURLToPath(new URL("../.noetl-tools/chromium/chromium", import.meta.url)),
];

/** Chromium without windows of its own, which take as much time as the pages. It can't show notifications. */
const HEADLESS_SHELL = "/usr/bin/chromium-headless-shell";

/** Returns the path of the installed browser. The runner never downloads one. */
export function chromium(): string {
  const path = process.env.CHROMIUM_PATH ?? CHROMIUM_PATHS.find(existsSync);
  if (!path) {
    throw new Error("No Chromium found. Install chromium or Google Chrome, or set CHROMIUM_PATH to its executable.");
  }
  return path;
}

export default defineConfig({
  testDir: "tests",
  outputDir: "test-results",
  // Each worker has its own server. The tests of a file share it; it allows one live subscription per path.
  workers: 3,
  fullyParallel: false,
  forbidOnly: true,
  // Limits for busy machines; most tests take less than 10 s.
  timeout: 180_000,
  expect: { timeout: 30_000 },
  reporter: [["list"]],
  use: {
    headless: true,
    permissions: ["clipboard-read", "clipboard-write"],
    viewport: { width: 1440, height: 900 },
    // Animations would take 6 % of the time.
    contextOptions: { reducedMotion: "reduce" },
    // A trace of each test would take 6 % of the time; `npm test -- --trace on` writes them.
    trace: "off",
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: existsSync(HEADLESS_SHELL) && !process.env.CHROMIUM_PATH ? HEADLESS_SHELL : chromium(),
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        // More threads would only take turns, because several pages are busy at once.
        "--js-flags=--single-threaded-gc",
        // Only the host names of this machine are resolved, so the page can't reach another host.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
      ],
    },
  },
});

import { defineConfig } from "@playwright/test";

import tests from "./playwright.config.ts";

/** Programs that use the harness of the tests: `npm run screenshots` and `npm run lighthouse`. */
export default defineConfig({ ...tests, testDir: "tools", timeout: 240_000 });

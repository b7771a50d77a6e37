import { defineConfig } from "vitest/config";

/** Unit tests of logic that needs neither a browser nor a server. Their zone is 5.5 hours ahead of UTC. */
export default defineConfig({
  test: { dir: "unit", env: { TZ: "Asia/Kolkata" } },
});

import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  worker: { format: "es" },
  build: {
    target: "es2022",
    // Every asset is a file of its own, so that the page's policy needs no exception for what this app adds.
    assetsInlineLimit: 0,
    // The editor is one big chunk by nature, and it is loaded after the first paint.
    chunkSizeWarningLimit: 4000,
    rolldownOptions: {
      // "use client" in our libraries speaks to server-side renderers.
      onwarn: (warning, warn) => warning.code !== "MODULE_LEVEL_DIRECTIVE" && warn(warning),
    },
  },
});

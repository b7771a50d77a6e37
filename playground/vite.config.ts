import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  worker: { format: "es" },
  build: {
    target: "es2022",
    // No asset is inlined, so that the content security policy needs no exception for this app.
    assetsInlineLimit: 0,
    // The editor is one large chunk, which is loaded after the first paint.
    chunkSizeWarningLimit: 4000,
    rolldownOptions: {
      // Ignores "use client" in the libraries, which is meant for server-side renderers.
      onwarn: (warning, warn) => warning.code !== "MODULE_LEVEL_DIRECTIVE" && warn(warning),
    },
  },
});

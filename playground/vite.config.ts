import { compression } from "vite-plugin-compression2";
import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  // Writes a file with the extension .gz beside each text file. The server sends it to browsers that accept gzip.
  plugins: [compression({ algorithms: ["gzip"] })],
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

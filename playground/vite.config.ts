import { compression } from "vite-plugin-compression2";
import { defineConfig } from "vite";

import { loadLimits, preloadShared } from "./first_load.ts";

/** Server behind `npm run dev` and `vite preview`: `make run` listens on this address. */
const SERVER = process.env.NOETL_URL ?? "http://127.0.0.1:8082";
// The server compares the host with the origin, so the host stays that of the browser's request.
const proxy = {
  "^/graphql(/.*)?$": { target: SERVER, ws: true },
  "^/(livez|readyz|metrics)$": { target: SERVER },
  "^/auth/(sign-in|token)$": { target: SERVER },
};

/** Name of the file with the modules that most views use. */
const SHARED_BY_VIEWS = "views";

export default defineConfig({
  // Files are named relative to each other, and in the page relative to its base, so they may be below a path prefix.
  base: "./",
  plugins: [
    loadLimits(SHARED_BY_VIEWS),
    preloadShared(SHARED_BY_VIEWS),
    // Writes a file with the extension .gz beside each text file. The server sends it to browsers that accept gzip. It
    // changes the page for each request.
    compression({ algorithms: ["gzip"], exclude: /\.html$/ }),
  ],
  worker: { format: "es" },
  // The development server bundles libraries in advance, and can't bundle this one, because it starts workers.
  optimizeDeps: { exclude: ["@graphiql/react/setup-workers/vite"] },
  server: { proxy },
  preview: { proxy },
  build: {
    target: "es2022",
    // No asset is inlined, so that the content security policy needs no exception for this app.
    assetsInlineLimit: 0,
    // The licenses of the libraries in the files.
    license: { fileName: "licenses.md" },
    // The editor of GraphiQL is one large chunk, which is loaded when its view is opened.
    chunkSizeWarningLimit: 4000,
    rolldownOptions: {
      // Ignores "use client" in the libraries, which is meant for server-side renderers.
      onwarn: (warning, warn) => warning.code !== "MODULE_LEVEL_DIRECTIVE" && warn(warning),
      // A few files instead of thirty small ones: a browser requests only six at a time from a server.
      output: {
        codeSplitting: {
          groups: [
            { name: "first", tags: ["$initial"], priority: 2 },
            { name: SHARED_BY_VIEWS, minShareCount: 5, test: /src\/|@mantine|@floating-ui|@tabler|@tanstack/, priority: 1 },
          ],
        },
      },
    },
  },
});

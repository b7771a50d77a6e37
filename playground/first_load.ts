/** Limits the first load, compressed: the entry, everything it imports statically, their styles, and preloaded files. */

import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const LIMIT_KIB = 300;

type Bundle = Parameters<Extract<NonNullable<Plugin["generateBundle"]>, (...args: never[]) => unknown>>[1];

/** Fails the build if the first load is larger than the limit. A view itself is loaded when it is opened. */
export function firstLoadLimit(shared: string): Plugin {
  return {
    name: "first-load-limit",
    apply: "build",
    generateBundle(_, bundle) {
      const files = firstFiles(bundle, shared);
      const bytes = [...files].reduce((sum, name) => sum + compressedSize(bundle, name), 0);
      const kib = Math.ceil(bytes / 1024);
      const text = `The first load is ${kib} KiB in ${files.size} files (limit ${LIMIT_KIB} KiB).`;
      if (kib > LIMIT_KIB) {
        this.error(`${text} Load a part of it later, with a dynamic import.`);
      }
      this.info(text);
    },
  };
}

function firstFiles(bundle: Bundle, shared: string): Set<string> {
  const files = new Set<string>();
  const visit = (name: string) => {
    const chunk = bundle[name];
    if (files.has(name) || !chunk) {
      return;
    }
    files.add(name);
    if (chunk.type === "chunk") {
      chunk.imports.forEach(visit);
      chunk.viteMetadata?.importedCss.forEach(visit);
    }
  };
  for (const [name, chunk] of Object.entries(bundle)) {
    if (chunk.type === "chunk" && (chunk.isEntry || chunk.name === shared)) {
      visit(name);
    }
  }
  return files;
}

function compressedSize(bundle: Bundle, name: string): number {
  const file = bundle[name];
  const content = file?.type === "chunk" ? file.code : (file?.source ?? "");
  return gzipSync(content).length;
}

/** Loads a file of all views together with the entry. Without this, it is requested only after the entry has begun. */
export function preloadShared(name: string): Plugin {
  return {
    name: "preload-shared",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler: (_, { bundle = {} }) => {
        const shared = Object.values(bundle).find((file) => file.type === "chunk" && file.name === name);
        if (!shared) {
          throw new Error(`The build has no chunk with the name ${name}.`);
        }
        const attrs = { rel: "modulepreload", crossorigin: true, href: `./${shared.fileName}` };
        return [{ tag: "link", attrs, injectTo: "head" }];
      },
    },
  };
}

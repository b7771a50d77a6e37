/** Limits the first load: the entry, everything it imports statically, and their styles, compressed. */

import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const LIMIT_KIB = 300;

type Bundle = Parameters<Extract<NonNullable<Plugin["generateBundle"]>, (...args: never[]) => unknown>>[1];

/** Fails the build if the first load is larger than the limit. Views are loaded when they are opened. */
export function firstLoadLimit(): Plugin {
  return {
    name: "first-load-limit",
    apply: "build",
    generateBundle(_, bundle) {
      const files = firstFiles(bundle);
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

function firstFiles(bundle: Bundle): Set<string> {
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
    if (chunk.type === "chunk" && chunk.isEntry) {
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

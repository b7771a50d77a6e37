/**
 * Limits what a browser loads before it shows a page, compressed: the files of the first load, and those of an execution. The
 * files of a load are the ones that it names, everything they import statically, and their styles.
 */

import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

interface Load {
  name: string;
  limitKib: number;
  /** Modules that are loaded with the entry, by the end of their path. */
  modules: readonly string[];
}

const LOADS: readonly Load[] = [
  { name: "The first load", limitKib: 300, modules: [] },
  {
    name: "The load of an execution",
    limitKib: 400,
    modules: ["/src/views/execution/view.tsx", "/src/views/execution/flow_diagram.tsx"],
  },
];

type Bundle = Parameters<Extract<NonNullable<Plugin["generateBundle"]>, (...args: never[]) => unknown>>[1];

/** Fails the build if a load is larger than its limit. The entry and the file that views share are part of each load. */
export function loadLimits(shared: string): Plugin {
  return {
    name: "load-limits",
    apply: "build",
    generateBundle(_, bundle) {
      for (const { name, limitKib, modules } of LOADS) {
        const files = filesOf(bundle, [...firstFiles(bundle, shared), ...modules.map((path) => fileWith(bundle, path))]);
        const bytes = [...files].reduce((sum, file) => sum + compressedSize(bundle, file), 0);
        const kib = Math.ceil(bytes / 1024);
        const text = `${name} is ${kib} KiB in ${files.size} files (limit ${limitKib} KiB).`;
        if (kib > limitKib) {
          this.error(`${text} Load a part of it later, with a dynamic import.`);
        }
        this.info(text);
      }
    },
  };
}

function firstFiles(bundle: Bundle, shared: string): string[] {
  return Object.entries(bundle).flatMap(([name, chunk]) =>
    chunk.type === "chunk" && (chunk.isEntry || chunk.name === shared) ? [name] : [],
  );
}

/** Returns the name of the file that contains a module. */
function fileWith(bundle: Bundle, path: string): string {
  const file = Object.values(bundle).find((chunk) => chunk.type === "chunk" && chunk.moduleIds.some((id) => id.endsWith(path)));
  if (!file) {
    throw new Error(`No file of the build has the module ${path}.`);
  }
  return file.fileName;
}

/** Returns some files with everything they import statically and their styles. */
function filesOf(bundle: Bundle, named: readonly string[]): Set<string> {
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
  named.forEach(visit);
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

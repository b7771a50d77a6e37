/** Settings that all code on the page shares: language, colours of the console's theme, line numbers, search. */

import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { foldGutter, foldKeymap, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const COLORS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--noetl-json-number)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--noetl-json-string)" },
  { tag: [tags.keyword, tags.bool, tags.null, tags.number, tags.labelName, tags.typeName], color: "var(--noetl-json-keyword)" },
  { tag: [tags.comment, tags.meta, tags.punctuation, tags.separator], color: "var(--mantine-color-dimmed)" },
]);

const FRAME = EditorView.theme({
  "&": { fontSize: "var(--mantine-font-size-xs)", backgroundColor: "transparent", color: "var(--mantine-color-text)" },
  "&.cm-focused": { outline: "2px solid var(--mantine-primary-color-filled)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", lineHeight: "1.6" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--mantine-color-dimmed)", borderRight: "1px solid var(--noetl-line)" },
  ".cm-content": { caretColor: "var(--mantine-color-text)" },
  ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--noetl-selected)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--noetl-hover)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--noetl-mark)", borderColor: "var(--noetl-line)", color: "inherit" },
  ".cm-panels, .cm-tooltip": {
    backgroundColor: "var(--noetl-surface)",
    borderColor: "var(--noetl-line)",
    color: "var(--mantine-color-text)",
  },
  ".cm-searchMatch, .cm-selectionMatch": { backgroundColor: "var(--noetl-selected)" },
});

/** Returns the settings for a document. A document that begins with a bracket is JSON, another one YAML. */
export function codeExtensions(text: string, label: string): Extension[] {
  return [
    /^\s*[[{]/.test(text) ? json() : yaml(),
    syntaxHighlighting(COLORS),
    FRAME,
    lineNumbers(),
    foldGutter(),
    highlightSelectionMatches(),
    keymap.of([...searchKeymap, ...foldKeymap]),
    EditorView.contentAttributes.of({ "aria-label": label }),
    EditorView.lineWrapping,
  ];
}

/** Text that can be read, searched and copied, but not changed. The keyboard reaches it. */
export const READ_ONLY: Extension = [
  EditorState.readOnly.of(true),
  EditorView.editable.of(false),
  EditorView.contentAttributes.of({ tabindex: "0", "aria-readonly": "true" }),
];

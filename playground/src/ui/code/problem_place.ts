/** Finds the place of a refusal of the server in the document: by its line and column, or by the field that it names. */

import { ensureSyntaxTree, syntaxTree } from "@codemirror/language";
import type { EditorState } from "@codemirror/state";
import type { SyntaxNode } from "@lezer/common";

export interface Problem {
  message: string;
  /** Names of the field in the document, outermost first. */
  field: readonly string[];
}

export interface Place {
  from: number;
  to: number;
}

const POSITION = /\bline (\d+),? column (\d+)/;
const PARSE_MS = 200;
const MAPS = ["BlockMapping", "FlowMapping", "Object"];
const ITEMS = ["Pair", "Property"];
const KEYS = ["Key", "PropertyName"];

/** Returns the place of a problem; the first line if the document does not have the field. */
export function placeOf(state: EditorState, problem: Problem): Place {
  return placeByPosition(state, problem.message) ?? placeByField(state, problem.field) ?? state.doc.line(1);
}

function placeByPosition(state: EditorState, message: string): Place | null {
  const [, line, column] = POSITION.exec(message) ?? [];
  if (line === undefined || Number(line) < 1 || Number(line) > state.doc.lines) {
    return null;
  }
  const { from, to } = state.doc.line(Number(line));
  return { from: Math.min(from + Math.max(0, Number(column) - 1), to), to };
}

function placeByField(state: EditorState, field: readonly string[]): Place | null {
  const tree = ensureSyntaxTree(state, state.doc.length, PARSE_MS) ?? syntaxTree(state);
  let container: SyntaxNode | null = tree.topNode.getChild("Document") ?? tree.topNode;
  let found: Place | null = null;
  for (const name of field) {
    const item: SyntaxNode | null = container && itemOf(state, container, name);
    if (!item) {
      break;
    }
    const key = childOf(item, KEYS);
    found = key && { from: key.from, to: key.to };
    container = item;
  }
  return found;
}

/** Returns the pair with a name in the map of a document or of another pair. */
function itemOf(state: EditorState, container: SyntaxNode, name: string): SyntaxNode | null {
  const map = childOf(container, MAPS);
  const items = ITEMS.flatMap((kind) => map?.getChildren(kind) ?? []);
  return items.find((item) => keyOf(state, item) === name) ?? null;
}

function keyOf(state: EditorState, item: SyntaxNode): string | null {
  const key = childOf(item, KEYS);
  return key && state.sliceDoc(key.from, key.to).replace(/^["']|["']$/g, "");
}

function childOf(node: SyntaxNode, kinds: readonly string[]): SyntaxNode | null {
  return kinds.map((kind) => node.getChild(kind)).find((child) => child !== null) ?? null;
}

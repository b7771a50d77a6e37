/** The life of an editor in a component: made when its first text or settings change, and destroyed with the component. */

import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useRef } from "react";

/** Returns the element that contains the editor, and the editor while it is drawn. `extensions` must not change needlessly. */
export function useEditor(text: string, extensions: () => Extension, keys: readonly unknown[]) {
  const frame = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView>(null);
  useEffect(() => {
    const parent = frame.current;
    if (!parent) {
      return;
    }
    const view = new EditorView({ doc: text, extensions: extensions(), parent });
    editor.current = view;
    return () => {
      editor.current = null;
      view.destroy();
    };
    // `keys` names everything that the text and the settings depend on.
  }, keys);
  return { frame, editor };
}

/** An editor of a document in YAML or JSON, with messages at their lines. Tab leaves the editor; Ctrl ] indents. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { indentOnInput } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { EditorView, highlightActiveLine, keymap } from "@codemirror/view";
import { useEffect, useRef, type RefObject } from "react";

import { codeExtensions } from "./extensions";
import { placeOf, type Problem } from "./problem_place";
import { useEditor } from "./use_editor";
import classes from "./code.module.css";

interface Props {
  /** First text. The editor keeps the changed text. */
  initialText: string;
  label: string;
  problems: readonly Problem[];
  onChange: (text: string) => void;
  /** Receives the function that moves the cursor to the place of a problem. */
  showProblem: RefObject<(problem: Problem) => void>;
}

export function CodeEditor({ initialText, label, problems, onChange, showProblem }: Props) {
  const changed = useRef(onChange);
  changed.current = onChange;
  const extensions = () => [
    codeExtensions(initialText, label),
    history(),
    indentOnInput(),
    highlightActiveLine(),
    lintGutter(),
    keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) {
        changed.current(update.state.doc.toString());
      }
    }),
  ];
  const { frame, editor } = useEditor(initialText, extensions, [initialText, label]);
  useEffect(() => {
    const view = editor.current;
    if (view) {
      const diagnostics = problems.map((problem) => ({ ...placeOf(view.state, problem), severity: "error" as const, message: problem.message }));
      view.dispatch(setDiagnostics(view.state, diagnostics));
    }
  }, [editor, problems]);
  showProblem.current = (problem) => {
    const view = editor.current;
    if (view) {
      const { from } = placeOf(view.state, problem);
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      view.focus();
    }
  };
  return <div ref={frame} className={`${classes.code} ${classes.editor}`} />;
}

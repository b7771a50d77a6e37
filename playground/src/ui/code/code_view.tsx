/** A document in YAML or JSON with highlighting, line numbers and folding. */

import { codeExtensions, READ_ONLY } from "./extensions";
import { useEditor } from "./use_editor";
import classes from "./code.module.css";

interface Props {
  text: string;
  /** Name of the document for screen readers. */
  label: string;
}

export function CodeView({ text, label }: Props) {
  const { frame } = useEditor(text, () => [codeExtensions(text, label), READ_ONLY], [text, label]);
  return <div ref={frame} className={classes.code} />;
}

import { useEffect } from "react";
import { useGraphiQL } from "@graphiql/react";

/** Wraps long lines in the editors. */
export function WrappedLines() {
  const query = useGraphiQL((state) => state.queryEditor);
  const variables = useGraphiQL((state) => state.variableEditor);
  useEffect(() => {
    for (const editor of [query, variables]) {
      editor?.updateOptions({ wordWrap: "on", wrappingIndent: "indent" });
    }
  }, [query, variables]);
  return null;
}

import { useEffect } from "react";
import { useGraphiQL } from "@graphiql/react";

/** Long lines fold instead of leaving the editors, which share the window with the live log. */
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

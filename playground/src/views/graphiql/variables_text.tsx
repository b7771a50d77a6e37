import { useGraphiQL } from "@graphiql/react";
import { useEffect, type RefObject } from "react";

/** Makes the text of the variables editor readable outside GraphiQL. */
export function VariablesText({ reader }: { reader: RefObject<() => string> }) {
  const editor = useGraphiQL((state) => state.variableEditor);
  useEffect(() => {
    reader.current = () => editor?.getValue() ?? "";
  }, [reader, editor]);
  return null;
}

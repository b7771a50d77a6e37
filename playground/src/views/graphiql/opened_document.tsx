/** Shows the document of an address in a tab of its own, and does not run it. */

import { useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";

interface Props {
  query: string;
  variables: string | undefined;
}

export function OpenedDocument({ query, variables }: Props) {
  const editor = useGraphiQL((state) => state.queryEditor);
  const variablesEditor = useGraphiQL((state) => state.variableEditor);
  const { addTab } = useGraphiQLActions();
  const navigate = useNavigate();
  useEffect(() => {
    if (!editor || !variablesEditor) {
      return;
    }
    addTab();
    editor.setValue(query);
    variablesEditor.setValue(variables ?? "");
    // A reload, or the way back to this view, must not add the tab again.
    void navigate({ to: "/graphiql", search: {}, replace: true });
  }, [editor, variablesEditor, query, variables, addTab, navigate]);
  return null;
}

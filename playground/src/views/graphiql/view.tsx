/** GraphiQL, with a tab per use case and the token of the signed-in user. It follows the theme of the console. */

import "graphiql/setup-workers/vite";
import "graphiql/style.css";

import { useComputedColorScheme } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { GraphiQL, HISTORY_PLUGIN } from "graphiql";
import { useEffect, useRef, useState } from "react";

import { fetcherOf } from "./fetcher";
import { OpenedDocument } from "./opened_document";
import { ShareButton } from "./share_button";
import { storageWithoutHeaders } from "./storage";
import { DEFAULT_TABS, initialContent } from "./tabs";
import { VariablesText } from "./variables_text";
import { WrappedLines } from "./wrapped_lines";
import classes from "./view.module.css";

const PLUGINS = [HISTORY_PLUGIN];
/** JSON schemas of the custom scalars, for the variables editor. */
const SCALARS = { JSON: {}, BigInt: { type: "string" }, DateTime: { type: "string" } } as const;

const route = getRouteApi("/graphiql");

export function GraphiqlView() {
  const search = route.useSearch();
  const scheme = useComputedColorScheme();
  const [initial] = useState(() => ({
    ...initialContent(window.localStorage),
    storage: storageWithoutHeaders(window.localStorage),
  }));
  const variablesText = useRef(() => "");
  const [fetcher] = useState(() => fetcherOf(() => variablesText.current()));
  useEffect(() => {
    document.title = "GraphiQL · NoETL";
  }, []);
  return (
    <div className={classes.frame} data-theme={scheme}>
      <h1 className={classes.title}>GraphiQL</h1>
      <GraphiQL
        fetcher={fetcher}
        plugins={PLUGINS}
        defaultTabs={DEFAULT_TABS}
        forcedTheme={scheme}
        customScalarSchemas={SCALARS}
        defaultEditorToolsVisibility="variables"
        shouldPersistHeaders={false}
        {...initial}
      >
        <GraphiQL.Logo>
          <span className={classes.logo} />
        </GraphiQL.Logo>
        <GraphiQL.Toolbar>
          {({ prettify, merge, copy }) => (
            <>
              {prettify}
              {merge}
              {copy}
              <ShareButton />
            </>
          )}
        </GraphiQL.Toolbar>
        <WrappedLines />
        <VariablesText reader={variablesText} />
        {search.query !== undefined && <OpenedDocument query={search.query} variables={search.variables} />}
      </GraphiQL>
    </div>
  );
}

import { GraphiQL, HISTORY_PLUGIN } from "graphiql";

import { LIVE_LOG_PLUGIN } from "./live-log/panel";
import logo from "./noetl.svg";
import { DEFAULT_TABS, initialVariables } from "./tabs";
import { fetcher } from "./transport";
import { WrappedLines } from "./wrapped_lines";

const PLUGINS = [LIVE_LOG_PLUGIN, HISTORY_PLUGIN];
/** JSON schemas of the custom scalars, for the variables editor. */
const SCALARS = { JSON: {}, BigInt: { type: "string" }, DateTime: { type: "string" } } as const;

const variables = initialVariables(window.localStorage);

export function App() {
  return (
    <GraphiQL
      fetcher={fetcher}
      plugins={PLUGINS}
      visiblePlugin={LIVE_LOG_PLUGIN}
      defaultTabs={DEFAULT_TABS}
      customScalarSchemas={SCALARS}
      defaultEditorToolsVisibility="variables"
      {...(variables !== undefined && { initialVariables: variables })}
    >
      <GraphiQL.Logo>
        <h1 className="brand">
          <img src={logo} alt="" width="22" height="22" />
          NoETL control plane
        </h1>
      </GraphiQL.Logo>
      <WrappedLines />
    </GraphiQL>
  );
}

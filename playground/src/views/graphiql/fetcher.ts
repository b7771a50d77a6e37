/** Sends the operations of GraphiQL: queries and mutations by POST, subscriptions over the socket of the page. */

import { getOperationAST } from "graphql";
import type { GraphiQLProps } from "graphiql";

import { post } from "../../api/client";
import { socket } from "../../api/socket";
import { parseVariables } from "./exact_variables";
import { newestFirst } from "./newest_first";

type Fetcher = GraphiQLProps["fetcher"];
type Params = Parameters<Fetcher>[0];
type Answer = Awaited<ReturnType<Fetcher>>;

/** Returns a fetcher that sends the variables of this text. */
export function fetcherOf(variablesText: () => string): Fetcher {
  return (params, options) => {
    const document = options?.documentAST;
    const operation = document && getOperationAST(document, params.operationName);
    const exact = withExactVariables(params, variablesText());
    if (operation?.operation !== "subscription") {
      // GraphiQL's type requires errors as class instances, but GraphiQL only shows their JSON.
      return post(exact, undefined, options?.headers as HeadersInit) as Promise<Answer>;
    }
    return newestFirst((sink) => socket.subscribe(exact, sink)) as Answer;
  };
}

/** The introspection has no variables. A text that GraphiQL reads differently is sent as GraphiQL read it. */
function withExactVariables(params: Params, text: string): Params {
  if (!params.variables) {
    return params;
  }
  try {
    return { ...params, variables: parseVariables(text) };
  } catch {
    return params;
  }
}

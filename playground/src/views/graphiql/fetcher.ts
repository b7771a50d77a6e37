/** Sends the operations of GraphiQL: queries and mutations by POST, subscriptions over the socket of the page. */

import { getOperationAST } from "graphql";
import type { GraphiQLProps } from "graphiql";

import { post } from "../../api/client";
import { socket } from "../../api/socket";
import { newestFirst } from "./newest_first";

type Fetcher = GraphiQLProps["fetcher"];
type Answer = Awaited<ReturnType<Fetcher>>;

export const fetcher: Fetcher = (params, options) => {
  const document = options?.documentAST;
  const operation = document && getOperationAST(document, params.operationName);
  if (operation?.operation !== "subscription") {
    // GraphiQL's type requires errors as class instances, but GraphiQL only shows their JSON.
    return post(params, undefined, options?.headers as HeadersInit) as Promise<Answer>;
  }
  return newestFirst((sink) => socket.subscribe(params, sink)) as Answer;
};

import { getOperationAST } from "graphql";
import { createClient, type Client, type FormattedExecutionResult } from "graphql-ws";
import type { GraphiQLProps } from "graphiql";

import { newestFirst } from "./newest_first";
import { answered, authorization, current, replaceToken, replaceTokenInBackground } from "./token";

type Fetcher = GraphiQLProps["fetcher"];
type Answer = Awaited<ReturnType<Fetcher>>;

const ENDPOINT = "/graphql";
const KEEP_ALIVE_MS = 15_000;
const PONG_TIMEOUT_MS = 5_000;
const MAX_RETRY_WAIT_MS = 5_000;
const UNAUTHORIZED = 401;
/** Close code of a socket whose token is refused, expired or revoked. */
const FORBIDDEN = 4403;

/** The socket of all subscriptions on the page. It opens with the first subscription and closes after the last. */
export const liveClient = createLiveClient();

/** Sends queries and mutations by POST, and subscriptions over the socket. */
export const fetcher: Fetcher = (params, options) => {
  const document = options?.documentAST;
  const operation = document && getOperationAST(document, params.operationName);
  if (operation?.operation !== "subscription") {
    // GraphiQL's type requires errors as class instances, but GraphiQL only shows their JSON.
    return post(params, options?.headers) as Promise<Answer>;
  }
  return newestFirst((sink) => liveClient.subscribe(params, sink)) as Answer;
};

export async function post(params: object, headers?: Record<string, unknown>): Promise<FormattedExecutionResult> {
  const token = current();
  const response = await fetch(ENDPOINT, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/graphql-response+json, application/json;q=0.9",
      ...authorization(),
      ...(headers as Record<string, string>),
    },
    body: JSON.stringify(params),
  });
  if (response.status === UNAUTHORIZED && (await replaceToken(token))) {
    return post(params, headers);
  }
  const body = await response.text();
  try {
    return JSON.parse(body) as FormattedExecutionResult;
  } catch {
    throw new Error(`The server's response (status ${response.status}) is not JSON: ${body.slice(0, 200)}`);
  }
}

function createLiveClient(): Client {
  const url = new URL(ENDPOINT, window.location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  let pongTimeout: number | undefined;
  let shown: string | null = null;
  const client = createClient({
    url: url.href,
    retryAttempts: Infinity,
    retryWait,
    connectionParams: () => {
      shown = current();
      return authorization();
    },
    keepAlive: KEEP_ALIVE_MS,
    on: {
      // A broken connection may send no close frame. A ping without a pong ends the socket; then the client retries.
      ping: (received) => {
        if (!received) {
          pongTimeout = window.setTimeout(() => client.terminate(), PONG_TIMEOUT_MS);
        }
      },
      pong: (received) => {
        if (received) {
          window.clearTimeout(pongTimeout);
        }
      },
      closed: (event) => {
        window.clearTimeout(pongTimeout);
        if ((event as CloseEvent).code === FORBIDDEN) {
          void replaceTokenInBackground(shown);
        }
      },
    },
  });
  return client;
}

/** Backoff with jitter, from 250 ms, so that the pages do not all reconnect to a restarted server at the same time. */
async function retryWait(retries: number): Promise<void> {
  await answered();
  const ceiling = Math.min(MAX_RETRY_WAIT_MS, 250 * 2 ** Math.min(retries, 10));
  await new Promise((resolve) => setTimeout(resolve, ceiling * (0.5 + Math.random() / 2)));
}

/**
 * The one WebSocket of the page (`graphql-transport-ws`). It opens with the first live subscription, closes after the
 * last, and reconnects with a growing pause. Its state is visible in the shell.
 */

import { createClient, type Client } from "graphql-ws";

import { ENDPOINT } from "./client";
import { keepDigits } from "./exact_json";
import { authorization, replaceToken, signInAnswered, signInState, subscribeSignIn } from "./token";

const KEEP_ALIVE_MS = 15_000;
const PONG_TIMEOUT_MS = 5_000;
const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 5_000;
const NORMAL_CLOSURE = 1000;
/** Close code of a socket whose token is refused, expired or revoked. */
const FORBIDDEN = 4403;

export type Connection = "idle" | "connecting" | "live" | "reconnecting";

let connection: Connection = "idle";
/** Time of the last message of the server. */
let heardAt = 0;
let lostAt: number | null = null;
const listeners = new Set<() => void>();

export function subscribeConnection(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function connectionState(): Connection {
  return connection;
}

/** Returns the time since which the page knows of no change of the server; null while the connection is not lost. */
export function connectionLostAt(): number | null {
  return lostAt;
}

export const socket = openSocket();

// Operations of the socket keep the token with which it was opened, so a changed token needs another socket.
let usedToken = signInState().token;
subscribeSignIn(() => {
  const { token } = signInState();
  if (token !== usedToken) {
    usedToken = token;
    socket.terminate();
  }
});

function openSocket(): Client {
  const url = new URL(ENDPOINT);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  let pongTimeout: number | undefined;
  let sent: string | null = null;
  const client = createClient({
    url: url.href,
    retryAttempts: Infinity,
    shouldRetry: () => true,
    retryWait,
    connectionParams: () => {
      sent = signInState().token;
      return authorization();
    },
    keepAlive: KEEP_ALIVE_MS,
    jsonMessageReviver: keepDigits,
    on: {
      connecting: () => show(connection === "reconnecting" ? "reconnecting" : "connecting"),
      connected: () => show("live"),
      message: () => (heardAt = Date.now()),
      // A broken connection may send no close frame. A ping without a pong ends the socket; then the client retries.
      ping: (received) => {
        if (!received) {
          pongTimeout = window.setTimeout(() => {
            lostAt = heardAt;
            client.terminate();
          }, PONG_TIMEOUT_MS);
        }
      },
      pong: (received) => {
        if (received) {
          window.clearTimeout(pongTimeout);
        }
      },
      closed: (event) => {
        window.clearTimeout(pongTimeout);
        const { code } = event as CloseEvent;
        show(code === NORMAL_CLOSURE ? "idle" : "reconnecting");
        if (code === FORBIDDEN) {
          void replaceToken(sent);
        }
      },
    },
  });
  return client;
}

/** Waits with jitter, so that the pages do not all reconnect to a restarted server at the same time. */
export async function retryWait(retries: number): Promise<void> {
  await signInAnswered();
  const ceiling = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(retries, 10));
  await new Promise((resolve) => setTimeout(resolve, ceiling * (0.5 + Math.random() / 2)));
}

function show(changed: Connection): void {
  connection = changed;
  lostAt = changed === "reconnecting" ? (lostAt ?? Date.now()) : null;
  for (const listener of listeners) {
    listener();
  }
}

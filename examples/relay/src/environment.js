import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWsClient } from 'graphql-ws';
import { Environment, Network, Observable, RecordSource, Store } from 'relay-runtime';

const authorization = (token) => ({ authorization: `Bearer ${token()}` });

const retryAttempts = Infinity;

/** Waits before the next attempt to connect: a random time up to 2 s, and twice as long each time, up to 30 s. */
const retryWait = (retries) =>
  new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(2000 * 2 ** retries, 30_000)));

/** Live subscriptions as server-sent events. `token` returns the current token. */
export function overEvents(url, token) {
  const headers = () => authorization(token);
  return createSseClient({ url: `${url}/stream`, headers, retryAttempts, retry: retryWait });
}

/** Live subscriptions over a WebSocket. */
export function overWebSocket(url, token) {
  const connectionParams = () => authorization(token);
  return createWsClient({ url: url.replace(/^http/, 'ws'), connectionParams, retryAttempts, retryWait });
}

/** `live` is the result of one of the two functions above. */
export function createEnvironment(url, token, live) {
  const request = async ({ name, text }, variables) => {
    const headers = { 'content-type': 'application/json', ...authorization(token) };
    const body = JSON.stringify({ operationName: name, query: text, variables });
    const response = await fetch(url, { method: 'POST', headers, body });
    return response.json();
  };
  const subscribe = ({ name, text }, variables) =>
    Observable.create((sink) => live.subscribe({ operationName: name, query: text, variables }, sink));
  return new Environment({ network: Network.create(request, subscribe), store: new Store(new RecordSource()) });
}

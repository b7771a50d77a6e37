// Tests the public clients graphql-ws, graphql-sse and Apollo Client against a server that requires tokens. They work
// with a valid token, are refused with a wrong one, and continue after a rotation: a second token is added, and the
// first one is removed.
// Usage: node tokens.mjs http://127.0.0.1:8082/graphql <token file> <noetl-graphql binary>

import { execFileSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';

import { ApolloClient, ApolloLink, CombinedProtocolErrors, HttpLink, InMemoryCache, gql } from '@apollo/client';
import { SetContextLink } from '@apollo/client/link/context';
import { ErrorLink } from '@apollo/client/link/error';
import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWsClient } from 'graphql-ws';
import WebSocket from 'ws';

import { expect, run } from './checks.mjs';

const [url, file, binary] = process.argv.slice(2);
const QUERY = '{ viewer { subject } }';
const SUBSCRIPTION = 'subscription { systemStatus(everySeconds: 1) { at } }';

/** Adds a token to the server's file and returns its text. */
function addToken(subject) {
  const options = ['token', 'new', '--role', 'viewer', '--subject', subject, '--file', file];
  return execFileSync(binary, options, { encoding: 'utf8' }).trim();
}

/** Removes the token of a subject from the server's file. */
function removeToken(subject) {
  const lines = readFileSync(file, 'utf8').split('\n');
  writeFileSync(`${file}.next`, lines.filter((line) => !line.includes(`"subject":"${subject}"`)).join('\n'));
  renameSync(`${file}.next`, file);
}

/** Waits until the server accepts a token. */
async function known(token) {
  const init = { method: 'POST', body: JSON.stringify({ query: QUERY }) };
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
  for (let attempt = 0; attempt < 500; attempt += 1) {
    if ((await fetch(url, { ...init, headers })).ok) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error('the server did not reload the token file');
}

/** A queue: `take` returns the next value that is `put`, and waits for it if necessary. */
function channel() {
  const [values, waiting] = [[], []];
  const settle = () => {
    while (values.length > 0 && waiting.length > 0) waiting.shift()(values.shift());
  };
  return {
    put: (value) => (values.push(value), settle()),
    take: () => new Promise((resolve) => (waiting.push(resolve), settle())),
  };
}

// Each client subscribes with the token that `token()` returns when it connects, reports each item, and reports the end
// of the token's connection as 'ended'. It connects again by itself.

function overWebSocket(query, token, report, retryAttempts) {
  const client = createWsClient({
    url: url.replace(/^http/, 'ws'),
    webSocketImpl: WebSocket,
    retryAttempts,
    // After the close code 4403 this client connects again, and calls connectionParams again.
    connectionParams: () => ({ Authorization: `Bearer ${token()}` }),
    on: { closed: (event) => event.code === 4403 && report('ended') },
  });
  client.subscribe({ query }, { next: report, error: (error) => report({ error }), complete: () => {} });
  return () => client.dispose();
}

function overEventStream(query, token, report, retryAttempts) {
  const headers = () => ({ Authorization: `Bearer ${token()}` });
  const client = createSseClient({ url: `${url}/stream`, retryAttempts, headers });
  const subscribe = () =>
    client.subscribe({ query }, {
      next: (result) => {
        if (result.errors?.[0].extensions.code !== 'UNAUTHENTICATED') return report(result);
        // This error is the last item of a connection whose token is no longer valid.
        report('ended');
        return subscribe();
      },
      error: (error) => report({ error }),
      complete: () => {},
    });
  subscribe();
  return () => client.dispose();
}

function apolloClient(token, report) {
  const endOfToken = new ErrorLink(({ error, operation, forward }) => {
    if (!CombinedProtocolErrors.is(error) || error.errors[0].extensions.code !== 'UNAUTHENTICATED') return undefined;
    report('ended');
    return forward(operation);
  });
  const authorization = new SetContextLink(() => ({ headers: { authorization: `Bearer ${token()}` } }));
  const link = ApolloLink.from([endOfToken, authorization, new HttpLink({ uri: url })]);
  return new ApolloClient({ link, cache: new InMemoryCache() });
}

function overMultipart(query, token, report) {
  const client = apolloClient(token, report);
  const next = (result) => report(result.error ? { error: result.error } : result);
  const subscription = client.subscribe({ query: gql(query) }).subscribe({ next, error: (error) => report({ error }) });
  return () => (subscription.unsubscribe(), client.stop());
}

const clients = {
  'graphql-ws': overWebSocket,
  'graphql-sse': overEventStream,
  '@apollo/client (multipart)': overMultipart,
};

async function receivesWithToken(name) {
  const token = addToken('reader');
  await known(token);
  const items = channel();
  const stop = clients[name](SUBSCRIPTION, () => token, items.put, 0);
  try {
    for (let count = 0; count < 2; count += 1) {
      const item = await items.take();
      expect(item.data?.systemStatus.at, JSON.stringify(item));
    }
  } finally {
    await stop();
    removeToken('reader');
  }
}

async function isRefusedWithoutToken(name) {
  const items = channel();
  const stop = clients[name](SUBSCRIPTION, () => 'wrong', items.put, 0);
  try {
    const item = await items.take();
    expect(item === 'ended' || item.error, JSON.stringify(item));
  } finally {
    await stop();
  }
}

async function goesOnThroughRotation(name) {
  let current = addToken('first');
  await known(current);
  const items = channel();
  const stop = clients[name](SUBSCRIPTION, () => current, items.put, 5);
  try {
    const before = await items.take();
    expect(before.data?.systemStatus.at, JSON.stringify(before));
    current = addToken('second');
    await known(current);
    removeToken('first');
    let item = await items.take();
    while (item !== 'ended') {
      expect(item.data?.systemStatus.at, JSON.stringify(item));
      item = await items.take();
    }
    const after = await items.take();
    expect(after.data?.systemStatus.at, JSON.stringify(after));
  } finally {
    await stop();
    removeToken('second');
  }
}

const checks = {
  '@apollo/client queries with a token': async () => {
    const token = addToken('asker');
    await known(token);
    const client = apolloClient(() => token, () => {});
    const { data } = await client.query({ query: gql(QUERY) });
    expect(data.viewer.subject === 'asker', JSON.stringify(data));
    client.stop();
    removeToken('asker');
  },
};
for (const name of Object.keys(clients)) {
  checks[`${name} subscribes with a token`] = () => receivesWithToken(name);
  checks[`${name} is refused with a wrong token`] = () => isRefusedWithoutToken(name);
  checks[`${name} continues after a rotation of its token`] = () => goesOnThroughRotation(name);
}

await run(checks);

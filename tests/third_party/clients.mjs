// Tests the public clients graphql-ws, graphql-sse and Apollo Client against a running server without authentication.
// Usage: node clients.mjs URL SUBSCRIPTION
// SUBSCRIPTION has one root field, which delivers an item at least every few seconds. It may not use variables.

import { ApolloClient, HttpLink, InMemoryCache, gql } from '@apollo/client';
import { getIntrospectionQuery } from 'graphql';
import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWsClient } from 'graphql-ws';
import WebSocket from 'ws';

import { expect, run } from './checks.mjs';

const [url, subscription] = process.argv.slice(2);

/** Runs an operation until it completes, and returns its results. */
function collect(client, payload) {
  return new Promise((resolve, reject) => {
    const results = [];
    client.subscribe(payload, {
      next: (result) => results.push(result),
      error: reject,
      complete: () => resolve(results),
    });
  });
}

const checks = {
  'graphql-ws completes a query': () => withWs(async (client) => {
    const results = await collect(client, { query: '{ __typename }' });
    expect(results.length === 1 && typeof results[0].data.__typename === 'string', JSON.stringify(results));
  }),
  'graphql-ws reads the whole schema': () => withWs(async (client) => {
    const [result] = await collect(client, { query: getIntrospectionQuery({ oneOf: true }) });
    expect(!result.errors && result.data.__schema.types.length > 0, JSON.stringify(result.errors));
  }),
  'graphql-ws receives a validation error': () => withWs(async (client) => {
    const errors = await collect(client, { query: '{ noSuchFieldAnywhere }' }).then(() => [], (errors) => errors);
    expect(errors[0]?.extensions?.code === 'GRAPHQL_VALIDATION_FAILED', JSON.stringify(errors));
  }),
  'graphql-ws runs fifty operations at once': () => withWs(async (client) => {
    const runs = Array.from({ length: 50 }, () => collect(client, { query: '{ __typename }' }));
    expect((await Promise.all(runs)).every((results) => results.length === 1), 'a result is missing');
  }),
  'graphql-ws receives a pong for its ping': async () => {
    let answered;
    const pong = new Promise((resolve) => (answered = resolve));
    await withWs(() => pong, { keepAlive: 20, lazy: false, on: { pong: (received) => received && answered() } });
  },
  'graphql-sse completes a query': () => withSse(async (client) => {
    const results = await collect(client, { query: '{ __typename }' });
    expect(results.length === 1 && typeof results[0].data.__typename === 'string', JSON.stringify(results));
  }),
  'graphql-sse receives a validation error': () => withSse(async (client) => {
    const [result] = await collect(client, { query: '{ noSuchFieldAnywhere }' });
    expect(result.errors?.[0].extensions.code === 'GRAPHQL_VALIDATION_FAILED', JSON.stringify(result));
  }),
  '@apollo/client receives each item of a subscription as it is sent': () => withApollo(async (client) => {
    const results = [];
    const query = gql(subscription);
    await new Promise((resolve, reject) => {
      const next = (result) => {
        results.push(result);
        if (results.length === 2) resolve();
      };
      client.subscribe({ query }).subscribe({ next, error: reject, complete: reject });
    });
    const items = results.map((result) => Object.values(result.data ?? {}));
    expect(items.every(([item]) => item !== undefined && item !== null), JSON.stringify(results));
  }),
  '@apollo/client receives a validation error of a subscription': () => withApollo(async (client) => {
    const query = gql('subscription { noSuchFieldAnywhere }');
    const result = await new Promise((resolve) => {
      client.subscribe({ query }).subscribe({ next: resolve, error: (error) => resolve({ error }) });
    });
    const code = result.error?.errors?.[0]?.extensions?.code;
    expect(code === 'GRAPHQL_VALIDATION_FAILED', JSON.stringify(result));
  }),
};

async function withApollo(use) {
  const client = new ApolloClient({ link: new HttpLink({ uri: url }), cache: new InMemoryCache() });
  try {
    await use(client);
  } finally {
    client.stop();
  }
}

async function withWs(use, options = {}) {
  const client = createWsClient({ url: url.replace(/^http/, 'ws'), webSocketImpl: WebSocket, retryAttempts: 0, ...options });
  try {
    await use(client);
  } finally {
    await client.dispose();
  }
}

async function withSse(use) {
  const client = createSseClient({ url: `${url}/stream`, retryAttempts: 0 });
  try {
    await use(client);
  } finally {
    client.dispose();
  }
}

await run(checks);

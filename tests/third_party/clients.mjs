// The public clients graphql-ws and graphql-sse against a live server. They use nothing but introspection and `__typename`,
// so they pass on any schema that has subscriptions or none.
// Usage: node clients.mjs [http://127.0.0.1:8082/graphql]

import { getIntrospectionQuery } from 'graphql';
import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWsClient } from 'graphql-ws';
import WebSocket from 'ws';

const url = process.argv[2] ?? 'http://127.0.0.1:8082/graphql';

/** Runs an operation to its end and returns its results. */
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

function expect(holds, what) {
  if (!holds) throw new Error(what);
}

const checks = {
  'graphql-ws runs a query to its completion': () => withWs(async (client) => {
    const results = await collect(client, { query: '{ __typename }' });
    expect(results.length === 1 && typeof results[0].data.__typename === 'string', JSON.stringify(results));
  }),
  'graphql-ws reads the whole schema': () => withWs(async (client) => {
    const [result] = await collect(client, { query: getIntrospectionQuery() });
    expect(!result.errors && result.data.__schema.types.length > 0, JSON.stringify(result.errors));
  }),
  'graphql-ws is told of a validation error': () => withWs(async (client) => {
    const errors = await collect(client, { query: '{ noSuchFieldAnywhere }' }).then(() => [], (errors) => errors);
    expect(errors[0]?.extensions?.code === 'GRAPHQL_VALIDATION_FAILED', JSON.stringify(errors));
  }),
  'graphql-ws runs fifty operations at once': () => withWs(async (client) => {
    const runs = Array.from({ length: 50 }, () => collect(client, { query: '{ __typename }' }));
    expect((await Promise.all(runs)).every((results) => results.length === 1), 'a result is missing');
  }),
  'graphql-ws pings and is answered': async () => {
    let answered;
    const pong = new Promise((resolve) => (answered = resolve));
    await withWs(() => pong, { keepAlive: 20, lazy: false, on: { pong: (received) => received && answered() } });
  },
  'graphql-sse runs a query to its completion': () => withSse(async (client) => {
    const results = await collect(client, { query: '{ __typename }' });
    expect(results.length === 1 && typeof results[0].data.__typename === 'string', JSON.stringify(results));
  }),
  'graphql-sse is told of a validation error': () => withSse(async (client) => {
    const [result] = await collect(client, { query: '{ noSuchFieldAnywhere }' });
    expect(result.errors?.[0].extensions.code === 'GRAPHQL_VALIDATION_FAILED', JSON.stringify(result));
  }),
};

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

let [passed, failed] = [0, 0];
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`failed: ${name}: ${error instanceof Error ? error.message : JSON.stringify(error)}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;

// Sends the operations of a page of the guide to a server, in the order of the page, with the variables below them.

import { readFileSync } from 'node:fs';

import { getOperationAST, parse } from 'graphql';
import { createClient } from 'graphql-ws';
import WebSocket from 'ws';

/** Paths in responses to the values that the variables of later operations name in angle brackets. */
const NAMED = {
  subscription: ['registerSubscription', 'subscription', 'id'],
  execution: ['execute', 'executionId'],
  entry: ['claimOutbox', 'claims', 0, 'entryId'],
  lease: ['claimOutbox', 'claims', 0, 'lease'],
  start: ['executions', 'nodes', 0, 'startedAt'],
  end: ['execution', 'endedAt'],
  'stream cursor': ['events', 'streamCursor'],
  'second execution': ['rerunExecution', 'execution', 'id'],
};

/** Returns the operations of a page with the texts of their variables. */
export function operations(text) {
  const block = /^```graphql\n([^]*?)^```\n(?:\n```json\n([^]*?)^```\n)?/gm;
  return [...text.matchAll(block)].map(([, query, variables]) => ({ query, variables: variables ?? '{}' }));
}

/** Returns every error of a response: those of the request, and those in the payloads of its fields. */
export function errorsOf({ data, errors = [] }) {
  const found = [...errors];
  JSON.stringify(data, (key, value) => {
    if (key === 'userErrors' && value.length > 0) found.push(...value);
    if (key === 'unavailableShards' && value.length > 0) found.push({ message: `unavailable shards: ${value}` });
    return value;
  });
  return found;
}

async function post(url, request) {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(request) });
  return response.json();
}

/** Returns the first item of a live subscription. */
async function firstItem(url, request) {
  const client = createClient({ url: url.replace(/^http/, 'ws'), webSocketImpl: WebSocket, retryAttempts: 0 });
  try {
    for await (const item of client.iterate(request)) return item;
    throw new Error('the live subscription ended without an item');
  } finally {
    await client.dispose();
  }
}

/** Sends the operations of a page, and returns their problems. */
export async function guideProblems(url, page) {
  const values = {};
  const problems = [];
  for (const { query, variables } of operations(readFileSync(page, 'utf8'))) {
    const { operation, name } = getOperationAST(parse(query));
    try {
      const filled = variables.replace(/<([\w ]+)>/g, (whole, key) => values[key] ?? whole);
      const send = operation === 'subscription' ? firstItem : post;
      const response = await send(url, { query, variables: JSON.parse(filled) });
      problems.push(...errorsOf(response).map((error) => `${name.value}: ${JSON.stringify(error)}`));
      for (const [key, path] of Object.entries(NAMED)) {
        values[key] ??= path.reduce((value, part) => value?.[part], response.data);
      }
    } catch (error) {
      problems.push(`${name.value}: ${error instanceof Error ? error.message : JSON.stringify(error)}`);
    }
  }
  const missing = Object.keys(NAMED).filter((key) => values[key] === undefined);
  return [...problems, ...missing.map((key) => `no response has the value <${key}>`)];
}

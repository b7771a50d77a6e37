// Compiles programs for Relay, and runs the example.

import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import relayCompiler from 'relay-compiler';
import relay from 'relay-runtime';
import WebSocket from 'ws';

import { expect } from './checks.mjs';

const here = dirname(fileURLToPath(import.meta.url));

/** Writes files to a folder of their own, compiles the documents in them, and returns the folder. */
export function compileForRelay(files) {
  const folder = mkdtempSync(join(tmpdir(), 'relay-'));
  process.on('exit', () => rmSync(folder, { recursive: true }));
  copyFileSync(join(here, '..', '..', 'schema.graphql'), join(folder, 'schema.graphql'));
  symlinkSync(join(here, 'node_modules'), join(folder, 'node_modules'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  execFileSync(relayCompiler, ['--noWatchman', '--output', 'quiet-with-errors'], { cwd: folder, stdio: 'inherit' });
  return folder;
}

/** Compiles the example in a folder, and returns a function that imports one of its modules. */
function compileExample(example) {
  const names = ['relay.config.json', 'src/environment.js', 'src/runs.js'];
  const files = Object.fromEntries(names.map((name) => [name, readFileSync(join(example, name), 'utf8')]));
  const folder = compileForRelay({ ...files, 'package.json': '{ "type": "module" }' });
  return (name) => {
    // Relay's plugin for Babel replaces the documents in the same way.
    const artifact = (_, document) => `(await import('./__generated__/${document}.graphql.js')).default`;
    writeFileSync(join(folder, name), files[name].replace(/graphql`\s*\w+ (\w+)[^]*?`/g, artifact));
    return import(pathToFileURL(join(folder, name)));
  };
}

/** Waits until the loaded part of the list has these executions, in this order. */
function shows(environment, operation, expected) {
  const snapshot = environment.lookup(operation.fragment);
  const ids = ({ data }) => data.executions.edges.map(({ node }) => node.id).join();
  return new Promise((resolve) => {
    const check = (current) => ids(current) === expected.join() && resolve();
    environment.subscribe(snapshot, check);
    check(snapshot);
  });
}

/**
 * Follows a list of two loaded executions over a transport. One execution is cancelled before the live subscription
 * starts, and then one is added and one is cancelled.
 */
async function showsChanges({ createEnvironment, runsQuery, followRuns }, url, connect, send) {
  const executionPool = `relay-${connect.name}`;
  const start = async () => {
    const query = 'mutation ($input: ExecuteInput!) { execute(input: $input) { executionId } }';
    const input = { entry: { path: 'samples/orders/process' }, executionPool };
    return (await send(query, { input })).execute.executionId;
  };
  const cancel = (id) =>
    send('mutation ($id: ID!) { cancelExecution(input: { executionId: $id }) { cancelled } }', { id });
  // The live items have the oldest execution too, but it never belongs to the loaded page.
  const [oldest, first, second, third] = [await start(), await start(), await start(), await start()];
  const live = connect(url, () => 'a token');
  const environment = createEnvironment(url, () => 'a token', live);
  const filter = { executionPools: [executionPool], statuses: ['PENDING'] };
  const variables = { filter, count: 2 };
  const operation = relay.createOperationDescriptor(runsQuery, variables);
  environment.retain(operation);
  await relay.fetchQuery(environment, runsQuery, variables).toPromise();
  await shows(environment, operation, [third, second]);
  const shown = new Set();
  environment.subscribe(environment.lookup(operation.fragment), ({ data }) =>
    data.executions.edges.forEach(({ node }) => shown.add(node.id)),
  );
  await cancel(second);

  let following;
  let isCurrent;
  const current = new Promise((resolve) => (isCurrent = resolve));
  const failure = new Promise((_, reject) => (following = followRuns(environment, variables, isCurrent, reject)));
  const changes = async () => {
    await current;
    await shows(environment, operation, [third, first]);
    const fourth = await start();
    await shows(environment, operation, [fourth, third, first]);
    await cancel(third);
    await shows(environment, operation, [fourth, first]);
    expect(!shown.has(oldest), 'an execution of a page that is not loaded was in the list');
    const { status } = environment.getStore().getSource().get(third);
    expect(status === 'CANCELLED', `the execution that left the list is ${status}`);
  };
  await Promise.race([changes(), failure]);
  following.dispose();
  await live.dispose();
}

/** Checks that the example in a folder shows a list of executions and its changes over each transport. */
export async function checkRelay(url, example, send) {
  const load = compileExample(example);
  const { overEvents, overWebSocket, ...environment } = await load('src/environment.js');
  const program = { ...environment, ...(await load('src/runs.js')) };
  globalThis.WebSocket ??= WebSocket;
  for (const connect of [overEvents, overWebSocket]) await showsChanges(program, url, connect, send);
}

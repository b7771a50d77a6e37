// Runs the examples and the operations of the API guide against a running server with the sample catalog, whose outbox
// is not relayed.
// Usage: node examples.mjs URL <URL of NATS> <origin that the server allows> <folder for files> <Python> <Chromium>
//     <worker in Rust>

import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { chromium } from '../../playground/node_modules/@playwright/test/index.mjs';
import { expect, run } from './checks.mjs';
import { guideProblems } from './guide.mjs';
import { checkRelay } from './relay.mjs';

const [url, nats, origin, files, python, browserPath, rustWorker] = process.argv.slice(2);
const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const examples = join(root, 'examples');
/** Time limits of a check and of one wait, in milliseconds: a busy machine needs a multiple of the usual time. */
const PATIENCE = 180_000;
const LONGEST_WAIT = 60_000;
const children = new Set();
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

/** Starts a program of an example. `ended` is its exit code or signal, `output` what it has written. */
function start(program, args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(child);
  child.output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (child.output += part));
  child.ended = new Promise((resolve) => child.on('close', (code, signal) => resolve(code ?? signal)));
  return child;
}

/** Returns the words that a program prints. */
async function printed(program, args) {
  const child = start(program, args);
  expect((await child.ended) === 0, child.output);
  return child.output.trim().split(/\s+/);
}

/** Waits until `check` returns a value that counts as true, and returns the value. */
async function until(what, check) {
  const end = Date.now() + LONGEST_WAIT;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`in vain: wait until ${what}`);
    await sleep(50);
  }
}

/** Sends an operation and returns its data. */
async function send(query, variables = {}) {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
  const { data, errors } = await response.json();
  expect(errors === undefined, JSON.stringify(errors));
  return data;
}

/** Starts executions and returns their ids. */
async function execute(count) {
  const requests = Array.from({ length: count }, () => ({ entry: { path: 'samples/orders/process' } }));
  const query = 'mutation ($requests: [ExecuteInput!]!) { executeBatch(input: {requests: $requests}) { results { executionId } } }';
  return (await send(query, { requests })).executeBatch.results.map((result) => result.executionId);
}

/** Returns how many of these executions are completed. */
async function completed(ids) {
  const query = 'query ($ids: [ID!]!) { nodes(ids: $ids) { ... on Execution { status } } }';
  const { nodes } = await send(query, { ids });
  return nodes.filter((node) => node?.status === 'COMPLETED').length;
}

/** Returns the ids of the stored events of an execution. */
async function stored(executionId) {
  const query = 'query ($id: ID!) { events(executionId: $id, first: 100) { nodes { eventId } } }';
  const { events } = await send(query, { id: executionId });
  return events.nodes.map(({ eventId }) => `${executionId}-${eventId}`);
}

/** Returns the whole lines of a worker's journal. */
function journal(path) {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8').split('\n').slice(0, -1).map((line) => JSON.parse(line));
}

/** Checks a worker: `command` are the words that start it, without its arguments. */
async function checkWorker(name, [program, ...words]) {
  const path = join(files, `${name}.jsonl`);
  const args = [...words, '--url', url];
  const work = (stepSeconds) =>
    start(program, [...args, 'work', '--journal', path, '--lease-seconds', '2', '--step-seconds', stepSeconds]);

  const first = await printed(program, [...args, 'send', `${name}-1`]);
  const second = await printed(program, [...args, 'send', `${name}-1`]);
  expect(first[0] === 'STARTED' && second[0] === 'DUPLICATE' && first[1] === second[1], `${first} ${second}`);

  const ids = [first[1], ...(await execute(4))];
  const killed = work('1');
  const steps = () => journal(path).filter(({ event }) => event.type === 'command.completed' && ids.includes(event.executionId));
  await until('two steps are in the journal', () => steps().length >= 2);
  killed.kill('SIGKILL');
  await killed.ended;
  const before = journal(path).length;
  expect((await completed(ids)) === 0, 'the worker was killed too late for this check');

  // These events are published while no worker runs.
  ids.push(...(await execute(2)));
  const again = work('0.2');
  await until('all executions are completed', async () => (await completed(ids)) === ids.length);
  const expected = (await Promise.all(ids.map(stored))).flat();
  const received = () => journal(path).map(({ event }) => `${event.executionId}-${event.eventId}`);
  await until('all events are in the journal', () => expected.every((id) => received().includes(id)));
  again.kill('SIGKILL');
  await again.ended;
  const repeated = received().filter((id, index, all) => all.indexOf(id) !== index);
  expect(repeated.length === 0, `${repeated.length} events came again, such as ${repeated[0]}`);
  expect(journal(path).length > before, 'nothing came after the restart');
}

/** Returns the source subscription of the samples, with the number of its executions. */
async function subscription(id) {
  const query = 'query ($id: ID!) { subscription(by: {id: $id}) { id status executions { totalCount { value } } } }';
  return (await send(query, { id })).subscription;
}

async function transition(action, id) {
  const query = `mutation ($id: ID!) { ${action}Subscription(input: {subscriptionId: $id}) { userErrors { message } } }`;
  await send(query, { id });
}

async function checkRuntime() {
  const folder = join(examples, 'runtime-nats');
  const publish = (...ids) => printed(python, [join(folder, 'send.py'), '--nats-url', nats, '--window', '0.1', ...ids]);
  const work = () => start(python, [join(folder, 'runtime.py'), '--url', url, '--nats-url', nats, '--ack-wait', '2']);
  const numbers = (from, count) => Array.from({ length: count }, (_, index) => `order-${from + index}`);

  await publish(...numbers(0, 300));
  const killed = work();
  const id = await until('the runtime is ready', () => /subscription (\d+)/.exec(killed.output)?.[1]);
  const count = async () => (await subscription(id)).executions.totalCount.value;
  await until('the first executions are started', async () => (await count()) > 0);
  killed.kill('SIGKILL');
  await killed.ended;

  const runtime = work();
  await until('each message has an execution', async () => (await count()) === 300);
  // The window of the stream is over, so the broker stores these messages again.
  await publish(...numbers(0, 5), 'order-300');
  await until('the duplicates are delivered', () => runtime.output.split('DUPLICATE').length > 5);
  await until('the other message has an execution', async () => (await count()) === 301);

  await transition('pause', id);
  await until('the runtime pauses', () => runtime.output.includes('is PAUSED'));
  // A fetch that began before may still take messages for a second.
  await sleep(1100);
  await publish('order-301');
  await sleep(1500);
  expect((await count()) === 301, 'a message was taken during the pause');
  await transition('resume', id);
  await until('the message has an execution', async () => (await count()) === 302);

  await transition('drain', id);
  expect((await runtime.ended) === 0, runtime.output);
  expect((await subscription(id)).status === 'DEACTIVATED', 'the drained subscription is not deactivated');
  expect((await count()) === 302, 'a message was executed twice');
}

async function checkDashboard() {
  const page = readFileSync(join(examples, 'dashboard', 'index.html'));
  expect(page.toString().split('\n').length <= 101, 'the dashboard has more than 100 lines');
  const server = createServer((_, response) => response.setHeader('content-type', 'text/html').end(page));
  server.listen(Number(new URL(origin).port), '127.0.0.1');
  const browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const tab = await browser.newPage();
    const faults = [];
    tab.on('pageerror', (error) => faults.push(error.message));
    await tab.goto(`${origin}/?server=${new URL(url).origin}`);
    await tab.getByText('live', { exact: true }).waitFor();
    const [id] = await execute(1);
    await tab.locator(`tr[data-status=PENDING]`, { hasText: id }).waitFor();
    await send('mutation ($id: ID!) { cancelExecution(input: {executionId: $id}) { cancelled } }', { id });
    await tab.locator(`tr[data-status=CANCELLED]`, { hasText: id }).waitFor();
    expect(faults.length === 0, faults.join());
  } finally {
    await browser.close();
    server.close();
  }
}

/** Ends the programs that a check leaves running, so that they do not disturb the next one. Shows their last lines. */
async function alone(check) {
  try {
    await check();
  } catch (error) {
    const last = [...children].map(({ output }) => output.split('\n').slice(-6).join('\n'));
    throw new Error([error.message, ...last].join('\n'));
  } finally {
    children.forEach((child) => child.kill('SIGKILL'));
    children.clear();
  }
}

await run({
  'the operations of the API guide succeed': async () => {
    const problems = await guideProblems(url, join(root, 'docs', 'guide', 'api.md'));
    expect(problems.length === 0, problems.join('\n'));
  },
  'the client with Relay shows a list and its changes': () => checkRelay(url, join(examples, 'relay'), send),
  'the worker in Python continues after a kill': () =>
    alone(() => checkWorker('python', [python, join(examples, 'worker-python', 'worker.py')])),
  'the worker in TypeScript continues after a kill': () =>
    alone(() => checkWorker('typescript', [process.execPath, join(examples, 'worker-typescript', 'dist', 'main.js')])),
  'the worker in Rust continues after a kill': () => alone(() => checkWorker('rust', [rustWorker])),
  'the runtime starts one execution for each message': () => alone(checkRuntime),
  'the dashboard follows executions live': checkDashboard,
}, PATIENCE);

// Shows one execution from its start to its end in the normalised stores of Apollo Client, urql's Graphcache and Relay,
// by a live subscription and by polls together. No store may go a step backwards, and none may mix up its entities.
// Usage: node stores.mjs http://127.0.0.1:8082/graphql

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, gql } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { Client, fetchExchange, subscriptionExchange } from '@urql/core';
import { cacheExchange } from '@urql/exchange-graphcache';
import { createClient as createWsClient } from 'graphql-ws';
import relay from 'relay-runtime';
import WebSocket from 'ws';

import { expect, run } from './checks.mjs';
import { compileForRelay } from './relay.mjs';

const [url] = process.argv.slice(2);

const EXECUTE = 'mutation { execute(input: { entry: { path: "samples/orders/process" } }) { executionId } }';
const RESERVE = 'mutation { reserveEventIds(input: { count: 1 }) { eventIds } }';
const PROJECT = 'mutation ($event: EventInput!) { projectEvents(input: { events: [$event] }) { projected } }';
// The documents for the stores. Relay's compiler requires names that begin with the name of the file.
const STATE = 'id status endedAt eventCount steps(first: 100) { nodes { name status attempt } }';
const RUN = `query storesRunQuery($id: ID!) { execution(id: $id) { ${STATE} } }`;
const EARLIER = `query storesEarlierQuery($id: ID!, $event: ID!) {
  executionState(executionId: $id, at: { eventId: $event }) {
    executionId status endedAt eventCount steps(first: 100) { nodes { name status attempt } } execution { ${STATE} }
  }
}`;
const CANCEL = `mutation storesCancelMutation($id: ID!) {
  cancelExecutions(input: { select: { ids: [$id] }, dryRun: true }) {
    results { executionId cancelled execution { ${STATE} } }
  }
}`;
const LIVE = `subscription storesLiveSubscription($id: ID!) {
  executionUpdates(executionId: $id) { kind executionId execution { ${STATE} } }
}`;

const EVENTS = [...step('start'), ...step('check'), { type: 'playbook.completed', status: 'COMPLETED' }];

/** Returns the events of a step. */
function step(nodeName) {
  const meta = { command_id: `${nodeName}:1`, attempt: 1 };
  return [
    { type: 'step.enter', nodeName, status: 'ENTERED' },
    { type: 'command.issued', nodeName, status: 'PENDING', meta },
    { type: 'command.claimed', nodeName, status: 'RUNNING', meta },
    { type: 'command.started', nodeName, status: 'STARTED', meta },
    { type: 'call.done', nodeName, status: 'COMPLETED', meta, result: { data: nodeName } },
    { type: 'command.completed', nodeName, status: 'success', meta },
  ];
}

/** Sends an operation without a store. */
async function post(query, variables) {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ query, variables }) });
  const result = await response.json();
  expect(!result.errors, JSON.stringify(result.errors));
  return result;
}

/** Stores an event of an execution, and returns its id. */
async function storeEvent(executionId, event) {
  const [eventId] = (await post(RESERVE)).data.reserveEventIds.eventIds;
  const { data } = await post(PROJECT, { event: { eventId, executionId, ...event } });
  expect(data.projectEvents.projected === 1, JSON.stringify(data));
  return eventId;
}

function expectSame(value, expected, source) {
  const [is, should] = [JSON.stringify(value), JSON.stringify(expected)];
  expect(is === should, `${source}: ${is} instead of ${should}`);
}

/** Returns what may not decrease: the rank of the status, and the numbers of events and of completed steps. */
function position({ status, eventCount, steps }) {
  const completed = steps.nodes.filter((node) => node.status === 'COMPLETED').length;
  return [['PENDING', 'RUNNING', 'COMPLETED'].indexOf(status), Number(eventCount), completed];
}

/** Collects the states of an execution from a source. */
function history(source) {
  const states = [];
  let wake = () => {};
  const put = (state) => (states.push(state), wake());
  /** Waits for a state with so many events. No state may be older than the one before it. */
  const until = async (count) => {
    for (let next = 0; ; next += 1) {
      while (next === states.length) await new Promise((resolve) => (wake = resolve));
      const [before, now] = [states[Math.max(next - 1, 0)], states[next]];
      const forwards = position(now).every((part, index) => part >= position(before)[index]);
      expect(forwards, `${source} goes back from ${JSON.stringify(before)} to ${JSON.stringify(now)}`);
      if (next === states.length - 1 && Number(now.eventCount) >= count) return now;
    }
  };
  return { put, until };
}

// Each store has `query` (from the network), `mutate`, `watch` for the results of RUN, `follow` for the items of LIVE,
// `read` for the result of RUN in the store, and `entities` for the records that have a key of their own.

function openApollo(ws, id) {
  const isLive = ({ operationType }) => operationType === 'subscription';
  const link = ApolloLink.split(isLive, new GraphQLWsLink(ws), new HttpLink({ uri: url }));
  const client = new ApolloClient({ link, cache: new InMemoryCache() });
  const watched = { query: gql(RUN), variables: { id } };
  const data = (result) => result.data;
  return {
    query: (text, variables) => client.query({ query: gql(text), variables, fetchPolicy: 'network-only' }).then(data),
    mutate: (text, variables) => client.mutate({ mutation: gql(text), variables }).then(data),
    watch: (put) => client.watchQuery({ ...watched, fetchPolicy: 'cache-only' }).subscribe(({ data }) => put(data)),
    follow: (put) => client.subscribe({ ...watched, query: gql(LIVE) }).subscribe(({ data }) => put(data)),
    read: () => client.readQuery(watched),
    entities: () => Object.entries(client.extract()).flatMap(([key, record]) => key.startsWith('ROOT_') ? [] : record),
  };
}

function openGraphcache(ws, id) {
  const entities = {};
  let written = () => {};
  // The store writes the fields that have changed, by names such as `Type:id.field`. A value with `:` is a link.
  const writeData = (fields) => {
    for (const [name, value] of Object.entries(fields)) {
      const [, entity, field] = /^(\w+:[^.%]+)\.(\w+)$/.exec(name) ?? [];
      if (entity && !value?.startsWith(':')) (entities[entity] ??= {})[field] = JSON.parse(value ?? 'null');
    }
    written();
  };
  const storage = { readData: async () => ({}), writeData };
  const keys = { ExecutionState: () => null, Step: () => null };
  const forwardSubscription = (request) => ({ subscribe: (sink) => ({ unsubscribe: ws.subscribe(request, sink) }) });
  const exchanges = [cacheExchange({ keys, storage }), fetchExchange, subscriptionExchange({ forwardSubscription })];
  const client = new Client({ url, exchanges, preferGetMethod: false });
  const data = (result) => result.data;
  return {
    query: (text, variables) => client.query(text, variables, { requestPolicy: 'network-only' }).toPromise().then(data),
    mutate: (text, variables) => client.mutation(text, variables).toPromise().then(data),
    watch: (put) => client.query(RUN, { id }, { requestPolicy: 'cache-only' }).subscribe(({ data }) => put(data)),
    follow: (put) => client.subscription(LIVE, { id }).subscribe(({ data }) => put(data)),
    read: () => client.readQuery(RUN, { id }).data,
    entities: async () => {
      // The store writes after each read.
      const saved = new Promise((resolve) => (written = resolve));
      client.readQuery(RUN, { id });
      await saved;
      return Object.values(entities);
    },
  };
}

/** Compiles documents for Relay. */
async function compile(...documents) {
  const folder = compileForRelay({
    'relay.config.json': JSON.stringify({ src: 'src', schema: 'schema.graphql', language: 'javascript' }),
    'src/stores.js': documents.map((text) => `graphql\`${text}\`;\n`).join(''),
  });
  const compiled = new Map();
  for (const text of documents) {
    const file = join(folder, 'src', '__generated__', `${/stores\w+/.exec(text)}.graphql.js`);
    compiled.set(text, (await import(pathToFileURL(file))).default);
  }
  return compiled;
}

async function openRelay(ws, id) {
  const compiled = await compile(RUN, EARLIER, CANCEL, LIVE);
  const network = relay.Network.create(
    ({ text }, variables) => post(text, variables),
    ({ text }, variables) => relay.Observable.create((sink) => ws.subscribe({ query: text, variables }, sink)),
  );
  const environment = new relay.Environment({ network, store: new relay.Store(new relay.RecordSource()) });
  const watched = relay.createOperationDescriptor(compiled.get(RUN), { id });
  environment.retain(watched);
  const read = () => environment.lookup(watched.fragment);
  const following = { subscription: compiled.get(LIVE), variables: { id } };
  return {
    query: (text, variables) => relay.fetchQuery(environment, compiled.get(text), variables).toPromise(),
    mutate: (text, variables) => new Promise((onCompleted, onError) => {
      relay.commitMutation(environment, { mutation: compiled.get(text), variables, onCompleted, onError });
    }),
    watch: (put) => environment.subscribe(read(), (snapshot) => put(snapshot.data)),
    follow: (put) => relay.requestSubscription(environment, { ...following, onNext: put }),
    read: () => read().data,
    entities: () =>
      Object.values(environment.getStore().getSource().toJSON()).filter((record) => !record.__id.startsWith('client:')),
  };
}

async function showsExecution(open) {
  const { warn, error } = console;
  const warnings = [];
  console.warn = console.error = (...warning) => warnings.push(warning);
  const ws = createWsClient({ url: url.replace(/^http/, 'ws'), webSocketImpl: WebSocket, retryAttempts: 0 });
  try {
    await followExecution(open, ws);
    // Stores warn of keys that are missing, and of records that belong to two types.
    expect(warnings.length === 0, JSON.stringify(warnings));
  } finally {
    // Otherwise a late warning would fail the check of the next store.
    Object.assign(console, { warn, error });
    await ws.dispose();
  }
}

async function followExecution(open, ws) {
  const id = (await post(EXECUTE)).data.execute.executionId;
  const store = await open(ws, id);
  const [updates, live, shown] = [[], history('the live subscription'), history('the watched query')];
  let { execution: state } = await store.query(RUN, { id });
  expect(state.status === 'PENDING', JSON.stringify(state));
  store.watch(({ execution }) => shown.put(execution));
  store.follow(({ executionUpdates: update }) => (updates.push(update), live.put(update.execution)));
  const started = Number(state.eventCount);
  expectSame(await live.until(started), state, 'the first item');

  let first;
  for (const [index, event] of EVENTS.entries()) {
    const eventId = await storeEvent(id, event);
    first ??= eventId;
    state = await live.until(started + index + 1);
    expectSame(await shown.until(started + index + 1), state, 'the watched query');
    expectSame((await store.query(RUN, { id })).execution, state, 'the poll');

    // Other results have the state at an earlier moment, or the execution as a part.
    const { executionState: earlier } = await store.query(EARLIER, { id, event: first });
    expectSame([earlier.status, Number(earlier.eventCount)], ['RUNNING', started + 1], 'the earlier state');
    expectSame(earlier.execution, state, 'the execution of the earlier state');
    const { cancelExecutions } = await store.mutate(CANCEL, { id });
    expectSame(cancelExecutions.results[0].execution, state, 'the execution in a result');

    expectSame(store.read().execution, state, 'the store');
    const entities = (await store.entities()).map((entity) => [entity.__typename, entity.id, entity.eventCount]);
    expectSame(entities, [['Execution', id, state.eventCount]], 'the entities');
  }
  expectSame([state.status, updates.at(-1).kind], ['COMPLETED', 'ENDED'], 'the end');
  expect(updates.every((update) => update.executionId === id), JSON.stringify(updates));
}

await run({
  'Apollo Client shows an execution': () => showsExecution(openApollo),
  'Graphcache shows an execution': () => showsExecution(openGraphcache),
  'Relay shows an execution': () => showsExecution(openRelay),
});

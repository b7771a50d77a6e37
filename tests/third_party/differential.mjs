// Runs random documents through the server and through graphql-js, whose resolvers replay the server's own values. The
// responses must be equal, with the order of their keys.
//
//   node differential.mjs URL [documents] [seed]
//
// A *universe* is a random tree of fields with fixed arguments. Each universe is read once, in the simplest form: each field
// under a key of its own, without duplicates and directives. The documents of a universe select only its fields: with
// aliases, duplicates, fragments and directives. It is read again after its documents; if its values have changed, they
// are not compared.
//
// Of a live subscription, two readers of a document read the first item. They share its text.
import { readFileSync } from 'node:fs';
import * as g from 'graphql';
import { expect, run } from './checks.mjs';

const [url, count = '2000', seedText = '7'] = process.argv.slice(2);
const DOCUMENTS = Number(count);
const PER_UNIVERSE = 100;
const AT_ONCE = 16;
const DEPTH = 3;
/** Fields with measured values, which differ from one read to the next. */
const MEASURED = /^(eventStream|replicas|shards|at)$|latency|^pool|seconds$/i;
/** The cursor of a live item has the positions of all shards. */
const differs = (type, field) => MEASURED.test(field) || (field === 'cursor' && !type.name.endsWith('Edge'));

const schema = g.buildSchema(readFileSync(new URL('../../schema.graphql', import.meta.url), 'utf8'));

/** Returns a generator of numbers from 0 to 1 (mulberry32). */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const random = generator(Number(seedText));
const chance = (probability) => random() < probability;
const below = (limit) => Math.floor(random() * limit);
const pick = (list) => list[below(list.length)];
const sample = (list, most) => list.filter(() => chance(Math.min(1, most / list.length)));

async function send(query, variables = {}) {
  const body = JSON.stringify({ query, variables });
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body });
  return response.text();
}

/** Returns the first item of a live subscription, as server-sent events carry it. */
async function firstItem(query, variables = {}) {
  const ended = new AbortController();
  const headers = { 'content-type': 'application/json', accept: 'text/event-stream' };
  const body = JSON.stringify({ query, variables });
  const response = await fetch(`${url}/stream`, { method: 'POST', headers, body, signal: ended.signal });
  let text = '';
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body) {
      text += decoder.decode(chunk, { stream: true });
      const item = /^event: next\ndata: (.*)\n/m.exec(text);
      if (item) return item[1];
    }
    return text;
  } finally {
    ended.abort();
  }
}

const READERS = 2;
/** Returns the responses of all readers of a document. */
async function responses({ query, variables }) {
  if (!query.startsWith('subscription')) return [await send(query, variables)];
  return Promise.all(Array.from({ length: READERS }, () => firstItem(query, variables)));
}

async function data(query) {
  const response = JSON.parse(await send(query));
  expect(!response.errors, `${query}: ${JSON.stringify(response.errors)}`);
  return response.data;
}

/** Writes a subscription, executions and events of workers. */
async function writeData() {
  const subscribe = `mutation { registerSubscription(input: { path: "samples/orders/inbox" }) { subscription { id } } }`;
  const parent = (await data(subscribe)).registerSubscription.subscription.id;
  for (let number = 0; number < 4; number += 1) {
    const entry = `entry: { path: "samples/orders/process" }, parentExecutionId: "${parent}"`;
    const execute = `mutation { execute(input: { ${entry}, workload: { order: { id: ${number} } } }) { executionId } }`;
    const id = (await data(execute)).execute.executionId;
    const event = (name, at) => `{ executionId: "${id}", eventId: "${BigInt(id) + BigInt(1_000_000 + at)}", type: "${name}", nodeName: "step ${at}", status: "COMPLETED" }`;
    const events = ['step.enter', 'call.done', 'step.exit'].map(event).join(', ');
    await data(`mutation { projectEvents(input: { events: [${events}] }) { projected } }`);
    const cancel = `mutation { cancelExecution(input: { executionId: "${id}" }) { userErrors { code } } }`;
    if (number === 0) await data(cancel);
  }
}

/** Arguments of the root fields, as they are written. Other root fields have none. */
async function rootArguments() {
  const found = await data(`{
    executions(first: 3) { nodes { id } } catalogEntries(first: 3) { nodes { id } } events(first: 3) { nodes { id } }
  }`);
  const ids = Object.values(found).flatMap((list) => list.nodes.map((node) => JSON.stringify(node.id)));
  const executions = found.executions.nodes.map((node) => JSON.stringify(node.id));
  expect(executions.length > 0 && ids.length > executions.length, 'the server has no sample data');
  return {
    node: ids.map((id) => `id: ${id}`),
    nodes: [`ids: [${ids.join(', ')}]`],
    execution: executions.map((id) => `id: ${id}`),
    executionUpdates: executions.map((id) => `executionId: ${id}`),
    events: executions.map((id) => `filter: {executionIds: [${id}]}, start: {beginning: true}`),
    executionListUpdates: [''],
    subscriptionUpdates: [''],
  };
}

let rootArgs = {};

/** Returns the ways to write a field's arguments: `null` if there is none. */
function waysToCall(parent, field) {
  const name = field.name;
  if (isRoot(parent) && rootArgs[name]) return rootArgs[name].map((args) => ({ args, fails: false }));
  if (parent === schema.getSubscriptionType()) return null;
  if (field.args.some(g.isRequiredArgument)) return null;
  if (!field.args.some((arg) => arg.name === 'first')) return [{ args: '', fails: false }];
  const page = (first) => ({ args: `first: ${first}`, fails: first === 0 });
  return [1, 2, 3, 0].map(page);
}

const isRoot = (type) => type === schema.getQueryType() || type === schema.getSubscriptionType();
const possible = (type) => (g.isAbstractType(type) ? schema.getPossibleTypes(type) : [type]);

/** Returns a random tree of the fields of a type: entries with the type on which they are selected. */
function universe(type, depth) {
  const entries = [];
  for (const on of new Set([type, ...possible(type)])) {
    if (g.isUnionType(on)) continue;
    for (const field of sample(Object.values(on.getFields()), isRoot(type) ? 3 : 5)) {
      const named = g.getNamedType(field.type);
      const ways = differs(on, field.name) ? null : waysToCall(on, field);
      if (!ways || (!g.isLeafType(named) && depth === 0)) continue;
      for (const way of sample(ways, 1.5)) {
        if (possible(on).some((object) => changing.has(key(object, field.name, way.args)))) continue;
        const child = g.isLeafType(named) ? null : universe(named, depth - 1);
        if (!child || child.entries.length > 0) entries.push({ on, name: field.name, ...way, child });
      }
    }
  }
  return { type, entries };
}

/** Returns the entries that can be selected on a type. */
const usable = (node, on) =>
  node.entries.filter((entry) => entry.on === on || (g.isAbstractType(entry.on) && schema.isSubType(entry.on, on)));

const keys = new Map();
function key(type, name, args) {
  const field = `${type.name}.${name}(${args})`;
  if (!keys.has(field)) keys.set(field, `k${keys.size}`);
  return keys.get(field);
}

/** Returns a number for the text of arguments. */
const argsNumber = (args) => (numbers.has(args) ? numbers : numbers.set(args, numbers.size)).get(args);
const numbers = new Map();

const call = (name, args) => (args ? `${name}(${args})` : name);

/** Keys of fields whose values change while nothing is written. Later universes do not select them. */
const changing = new Set();

/** Adds the keys whose values differ. */
function volatileKeys(one, other) {
  for (const field of Object.keys(one ?? {})) {
    const [left, right] = [one[field], other?.[field]];
    if (JSON.stringify(left) === JSON.stringify(right)) continue;
    if (left && right && typeof left === 'object') volatileKeys(left, right);
    else changing.add(field);
  }
}

/** Returns the selection of a whole universe. Fields that fail are left out. */
function whole(node) {
  const of = (type) => {
    const fields = usable(node, type).filter((entry) => !entry.fails);
    const one = ({ name, args, child }) =>
      `${key(type, name, args)}: ${call(name, args)}${child ? ` { ${whole(child)} }` : ''}`;
    return [...new Map(fields.map((entry) => [key(type, entry.name, entry.args), entry])).values()].map(one).join(' ');
  };
  if (!g.isAbstractType(node.type)) return `__typename ${of(node.type)}`;
  const fragments = possible(node.type).map((type) => `... on ${type.name} { __typename ${of(type)} }`);
  return `__typename ${fragments.join(' ')}`;
}

/** Writes a random document that selects fields of a universe. */
class Writer {
  constructor() {
    this.fragments = [];
    this.variables = new Map();
  }

  directives() {
    if (!chance(0.3)) return '';
    const one = () => {
      if (chance(0.5)) return chance(0.5) ? 'true' : 'false';
      const name = `b${below(4)}`;
      if (!this.variables.has(name)) this.variables.set(name, chance(0.5));
      return `$${name}`;
    };
    const names = chance(0.2) ? ['skip', 'include'] : [chance(0.5) ? 'skip' : 'include'];
    return names.map((name) => ` @${name}(if: ${one()})`).join('');
  }

  field(entry, depth) {
    const { name, args, child } = entry;
    // Fields with equal response keys must be the same field with the same arguments.
    const plain = args === '' && chance(0.6);
    const alias = plain ? '' : `${name}_${argsNumber(args)}_${below(2)}: `;
    return `${alias}${call(name, args)}${this.directives()}${child ? ` { ${this.set(child, child.type, depth - 1)} }` : ''}`;
  }

  /** Writes the field of a live subscription, which has exactly one. */
  liveField({ name, args, child }) {
    return `${chance(0.3) ? 'live: ' : ''}${call(name, args)} { ${this.set(child, child.type, DEPTH - 1)} }`;
  }

  set(node, on, depth) {
    const fields = usable(node, on);
    const parts = [];
    for (let rest = 1 + below(3); rest > 0; rest -= 1) {
      const kind = random();
      if (kind < 0.1 || depth <= -2) {
        parts.push(chance(0.5) ? `__typename${this.directives()}` : `t${below(2)}: __typename${this.directives()}`);
      } else if (kind < 0.65 && fields.length > 0) {
        parts.push(this.field(pick(fields), depth));
      } else {
        const types = [on, node.type, ...(on === node.type ? possible(on) : [])];
        const target = pick(types);
        const body = this.set(node, target, depth - 1);
        if (chance(0.3)) {
          const name = `F${this.fragments.length}`;
          this.fragments.push(`fragment ${name} on ${target.name} { ${body} }`);
          const spread = () => `...${name}${this.directives()}`;
          parts.push(spread(), ...(chance(0.3) ? [spread()] : []));
        } else {
          const condition = target === on && chance(0.5) ? '' : ` on ${target.name}`;
          parts.push(`...${condition}${this.directives()} { ${body} }`);
        }
      }
    }
    return parts.join(' ');
  }

  document(node) {
    const isLive = node.type === schema.getSubscriptionType();
    const set = isLive ? this.liveField(pick(node.entries)) : this.set(node, node.type, DEPTH);
    const declared = [...this.variables.keys()].map((name) => `$${name}: Boolean!`);
    const head = `${isLive ? 'subscription' : 'query'} ${declared.length > 0 ? `(${declared.join(', ')}) ` : ''}`;
    return { query: [`${head}{ ${set} }`, ...this.fragments].join('\n'), variables: Object.fromEntries(this.variables) };
  }
}

const written = (node) => node.arguments.map((arg) => `${arg.name.value}: ${g.print(arg.value)}`).join(', ');

/** Returns the reference's result of a document with the values of a universe. */
function reference({ query, variables }, values, failing) {
  const fieldResolver = (source, _args, _context, info) => {
    const field = key(info.parentType, info.fieldName, written(info.fieldNodes[0]));
    if (failing.has(field)) throw new g.GraphQLError('it fails');
    if (!(field in source)) throw new Error(`the universe lacks ${info.parentType.name}.${info.fieldName}`);
    return source[field];
  };
  const typeResolver = (value) => value.__typename;
  return g.executeSync({
    schema, document: g.parse(query), rootValue: values, variableValues: variables, fieldResolver, typeResolver,
  });
}

/** Removes spaces outside of strings, which stored JSON has, and writes numbers as JavaScript does. */
const normal = (text) =>
  text.replace(/("(?:[^"\\]|\\.)*")|\s+|-?\d[\d.eE+-]*/g, (part, string) => string ?? (part.trim() ? String(Number(part)) : ''));

/** Returns what differs between the two responses of a document; `null`: nothing; `undefined`: it can't be compared. */
function difference(text, expected) {
  let response;
  try {
    response = JSON.parse(text);
  } catch (error) {
    return `the response is no JSON: ${error.message}: ${text.slice(0, 300)}`;
  }
  if (response.data === undefined && response.errors?.[0].extensions?.code === 'LIMIT_EXCEEDED') return undefined;
  const wanted = JSON.stringify(expected.data);
  if (Boolean(response.errors) !== Boolean(expected.errors)) {
    return `errors: ${JSON.stringify(response.errors)}, not ${JSON.stringify(expected.errors?.map((one) => one.message))}`;
  }
  const own = expected.errors ? JSON.stringify(response.data) : normal(text);
  const other = expected.errors ? wanted : `{"data":${wanted}}`;
  return own === other ? null : `the response is ${own}\nnot ${other}`;
}

/** Returns what differs between the response of any reader and the expected one. */
async function anyDifference(document, expected) {
  const found = (await responses(document)).map((text) => difference(text, expected));
  return found.find((one) => one) ?? found[0];
}

/** Returns a document without the fragments and variables that it does not use. */
function used(document) {
  const names = new Set();
  g.visit(document, {
    FragmentSpread: (spread) => void names.add(spread.name.value),
    Directive: (directive) => directive.arguments.forEach((arg) => arg.value.kind === 'Variable' && names.add(`$${arg.value.name.value}`)),
  });
  const less = g.visit(document, {
    FragmentDefinition: (one) => (names.has(one.name.value) ? undefined : null),
    VariableDefinition: (one) => (names.has(`$${one.variable.name.value}`) ? undefined : null),
  });
  return g.print(less) === g.print(document) ? less : used(less);
}

/** Returns a smaller document that still differs. */
async function shrunk(document, values, failing) {
  let smallest = document;
  for (let progress = true; progress; ) {
    progress = false;
    const ast = g.parse(smallest.query);
    const places = [];
    g.visit(ast, { SelectionSet: (set) => void set.selections.forEach((one) => places.push(one)), Directive: (one) => void places.push(one) });
    for (const place of places) {
      const query = g.print(used(g.visit(ast, { enter: (node) => (node === place ? null : undefined) })));
      const candidate = { query, variables: smallest.variables };
      let valid;
      try {
        valid = g.validate(schema, g.parse(query)).length === 0;
      } catch {
        valid = false;
      }
      if (!valid) continue;
      const found = await anyDifference(candidate, reference(candidate, values, failing));
      if (found) {
        [smallest, progress] = [candidate, true];
        break;
      }
    }
  }
  return smallest;
}

const counts = { compared: 0, tooLarge: 0, changed: 0, refused: 0, withErrors: 0, withEmptyObjects: 0, live: 0 };

/** Reads a whole universe. */
async function readWhole(node) {
  if (node.type !== schema.getSubscriptionType()) return JSON.parse(await send(`{ ${whole(node)} }`));
  const read = { data: { __typename: node.type.name } };
  for (const entry of node.entries) {
    const item = await firstItem(`subscription { ${whole({ type: node.type, entries: [entry] }).replace('__typename ', '')} }`);
    const { data: values, errors } = item.startsWith('{') ? JSON.parse(item) : { errors: item };
    if (errors) return { errors };
    Object.assign(read.data, values);
  }
  return read;
}

async function checkUniverse(root) {
  const node = universe(root, DEPTH);
  if (usable(node, node.type).length === 0) return;
  const failing = new Set();
  const collect = ({ entries, type }) => {
    for (const entry of entries) {
      if (entry.fails) possible(g.isAbstractType(entry.on) ? type : entry.on).forEach((on) => failing.add(key(on, entry.name, entry.args)));
      if (entry.child) collect(entry.child);
    }
  };
  collect(node);
  const { data: values, errors } = await readWhole(node);
  if (errors) {
    counts.tooLarge += 1;
    return;
  }
  const { compared, live } = counts;
  const documents = Array.from({ length: PER_UNIVERSE }, () => new Writer().document(node));
  const differing = [];
  const one = async (document) => {
    const texts = await responses(document);
    const refused = texts[0].includes('"GRAPHQL_VALIDATION_FAILED"') && !texts[0].startsWith('{"data"');
    // The validation of graphql-js takes longer than all the rest.
    if (refused || chance(0.02)) {
      const isValid = g.validate(schema, g.parse(document.query)).length === 0;
      if (isValid === refused) differing.push([document, `graphql-js says that the document is ${isValid ? '' : 'in'}valid`]);
    }
    if (refused) {
      counts.refused += 1;
      return;
    }
    const expected = reference(document, values, failing);
    const differences = texts.map((text) => difference(text, expected));
    const found = differences.find((one) => one) ?? differences[0];
    if (found === undefined) counts.tooLarge += 1;
    else counts.compared += 1;
    if (found !== undefined && texts.length > 1) counts.live += 1;
    if (expected.errors) counts.withErrors += 1;
    if (JSON.stringify(expected.data)?.includes('{}')) counts.withEmptyObjects += 1;
    if (found) differing.push([document, found]);
  };
  const waiting = [...documents];
  const worker = async () => {
    for (let next = waiting.pop(); next; next = waiting.pop()) await one(next);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  const after = (await readWhole(node)).data;
  if (JSON.stringify(after) !== JSON.stringify(values)) {
    counts.changed += 1;
    [counts.compared, counts.live] = [compared, live];
    volatileKeys(values, after);
    return;
  }
  if (differing.length === 0) return;
  const [document, found] = differing[0];
  const least = await shrunk(document, values, failing);
  throw new Error(`${differing.length} documents of a universe differ. ${found}\n${least.query}\n${JSON.stringify(least.variables)}`);
}

console.log(`differential: ${DOCUMENTS} documents, seed ${seedText}`);
await run(
  {
    [`${DOCUMENTS} random documents have the responses of graphql-js`]: async () => {
      await writeData();
      rootArgs = await rootArguments();
      for (let universes = 0; counts.compared < DOCUMENTS; universes += 1) {
        expect(universes < (4 * DOCUMENTS) / PER_UNIVERSE + 20, `too few documents can be compared: ${JSON.stringify(counts)}`);
        await checkUniverse(universes % 5 === 4 ? schema.getSubscriptionType() : schema.getQueryType());
      }
      console.log(`differential: ${JSON.stringify(counts)}`);
      expect(counts.live > DOCUMENTS / 20, 'too few live subscriptions were compared');
      expect(counts.withErrors > DOCUMENTS / 100 && counts.withEmptyObjects > DOCUMENTS / 50, 'the documents are too simple');
    },
  },
  // On a busy machine, 20,000 take ten minutes.
  1_200_000,
);

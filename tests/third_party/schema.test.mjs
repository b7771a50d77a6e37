// Each check of schema.mjs fails for a schema or a document that breaks its rule.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { documents, problems } from './operations.mjs';
import { changes, unlisted } from './schema_changes.mjs';
import { lint } from './schema_lint.mjs';

const ACCEPTED = `
"""Queries."""
type Query {
  """Thing with this id."""
  thing("""Id.""" id: ID!, """Size.""" size: Int = 5): Thing
  """Things."""
  things("""Key.""" by: Key): [Thing!]
  """Page."""
  page: PageInfo
}
"""Page."""
type PageInfo { """Before.""" hasPreviousPage: Boolean! """After.""" hasNextPage: Boolean! """First.""" startCursor: String """Last.""" endCursor: String }
"""Thing."""
type Thing { """Id.""" id: ID! """Name.""" name: String! """Colour.""" colour: Colour }
"""Colour."""
enum Colour { """Red.""" RED """Blue.""" BLUE }
"""Key."""
input Key { """Id.""" id: ID """Name.""" name: String }
`;

const policy = (entries) => `# Policy\n## Log of breaking changes\n### Unreleased\n${entries}\n### 0.1.0\nold\n`;

const BREAKING = [
  ['name: String!', 'name: String', 'Thing.name changed type from String! to String.'],
  [' """Name.""" name: String! ', ' ', 'Thing.name was removed.'],
  [' """Blue.""" BLUE', '', 'BLUE was removed from enum type Colour.'],
  ['id: ID!, """', 'id: ID!, """Depth.""" depth: Int!, """', 'A required arg depth on Query.thing was added.'],
  ['size: Int = 5', 'size: Int = 6', 'Query.thing arg size has changed defaultValue from 5 to 6.'],
  ['input Key {', 'input Key @oneOf {', 'Key became a @oneOf input.'],
];

for (const [before, after, sentence] of BREAKING) {
  test(`a breaking change needs an entry in the log: ${sentence}`, () => {
    assert.ok(ACCEPTED.includes(before));
    const { breaking } = changes(ACCEPTED, ACCEPTED.replace(before, after));
    assert.deepEqual(breaking, [sentence]);
    assert.deepEqual(unlisted(breaking, policy('')), [sentence]);
    assert.deepEqual(unlisted(breaking, policy(`- \`${sentence}\` Reason.`)), []);
    // An entry of an earlier release is not enough.
    assert.deepEqual(unlisted(breaking, policy('').replace('old', `- \`${sentence}\``)), [sentence]);
  });
}

test('an addition breaks no client, and a value that clients may not know is dangerous', () => {
  const grown = ACCEPTED.replace('BLUE', 'BLUE """Green.""" GREEN').replace('"""Id.""" id: ID! ', '"""Id.""" id: ID! """Age.""" age: Int ');
  assert.deepEqual(changes(ACCEPTED, grown), { breaking: [], dangerous: ['GREEN was added to enum type Colour.'] });
  assert.deepEqual(changes(ACCEPTED, ACCEPTED), { breaking: [], dangerous: [] });
});

const STYLE = [
  ['"""Thing."""\ntype', 'type', 'require-description'],
  ['colour: Colour', 'Colour: Colour', 'naming-convention'],
  ['"""Key."""\n', '"""Unused."""\nenum Unused { """A.""" A }\n"""Key."""\n', 'no-unreachable-types'],
  ['"""Things."""\n  things', '"""Things."""\n  getThings', 'naming-convention'],
  ['things("""Key.""" by: Key): [Thing!]', 'things: ThingConnection', 'relay-connection-types'],
];

test('a schema that follows the rules has no findings', async () => {
  assert.deepEqual(await lint(ACCEPTED), []);
});

for (const [before, after, rule] of STYLE) {
  test(`a schema that breaks a rule of style is refused: ${rule}, ${after}`, async () => {
    assert.ok(ACCEPTED.includes(before));
    const connection = '\n"""Page."""\ntype ThingConnection { """Items.""" nodes: [Thing!]! }\n';
    const text = ACCEPTED.replace(before, after) + (rule.startsWith('relay') ? connection : '');
    const findings = await lint(text);
    assert.ok(findings.some((finding) => finding.includes(rule)), findings.join('\n'));
  });
}

test('an operation of a document that does not fit the schema is found', () => {
  const page = 'Text.\n```graphql\n{ things { name } }\n```\n```sh\necho\n```\n```graphql\n{ things { size } }\n```\n';
  const found = documents('README.md', page).map((document) => problems(ACCEPTED, document));
  assert.deepEqual([found[0], found[1].length], [[], 1]);
  assert.equal(problems(ACCEPTED, '{ things {').length, 1);
});

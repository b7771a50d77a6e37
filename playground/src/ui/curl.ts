/** A request to the API as a command of a POSIX shell. */

/**
 * Returns the command. It contains no token: the shell reads it from the variable `TOKEN`. A server without authentication
 * ignores it.
 */
export function curlOf(endpoint: string, document: string, variables: unknown): string {
  return [
    `curl ${quoted(endpoint)}`,
    "-H 'content-type: application/json'",
    '-H "authorization: Bearer $TOKEN"',
    `--data-raw ${quoted(JSON.stringify({ query: document.trim(), variables }))}`,
  ].join(" \\\n  ");
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

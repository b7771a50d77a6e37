/** Variables with all digits of their numbers, from the text of the editor. GraphiQL itself reads them as numbers of JavaScript. */

import { parseExact } from "../../api/exact_json";

const COMMENT = /("(?:\\.|[^"\\])*")|\/\/.*|\/\*[^]*?\*\//g;
const LAST_COMMA = /("(?:\\.|[^"\\])*")|,(?=\s*[}\]])/g;

/** Reads a JSON text that can have comments, and commas before closing brackets. Throws `SyntaxError` if it is none. */
export function parseVariables(text: string): unknown {
  const kept = (_: string, quoted: string | undefined) => quoted ?? " ";
  return parseExact(text.replace(COMMENT, kept).replace(LAST_COMMA, kept));
}

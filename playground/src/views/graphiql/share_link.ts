/** A link that opens GraphiQL with a document and its variables. It contains no header, so no token. */

import { stringifySearch } from "../../app/search";

/** Maximum length of a link in characters. Common proxies refuse a request whose first line has more than 8,192. */
const MAX_LINK = 8_000;

/** Returns the link of a document, from the address of GraphiQL; undefined if it would be too long. */
export function linkTo(address: string, query: string, variables: string): string | undefined {
  const link = address + stringifySearch({ query, ...(variables.trim() !== "" && { variables }) });
  return link.length <= MAX_LINK ? link : undefined;
}

/** A link that opens GraphiQL with a document and its variables. It contains no header, so no token. */

import { stringifySearch } from "../../app/search";

/** Maximum length of a link in characters. Common proxies refuse a request whose first line has more than 8,192. */
const MAX_LINK = 8_000;

/** Link, or the reason for which there is none. */
export type Shared = { link: string } | { refusal: string };

/** Returns the link of a document, from the address of GraphiQL. */
export function linkTo(address: string, query: string, variables: string): Shared {
  if (query.trim() === "") {
    return { refusal: "There is no query to share." };
  }
  const link = address + stringifySearch({ query, ...(variables.trim() !== "" && { variables }) });
  return link.length <= MAX_LINK ? { link } : { refusal: "The query and its variables are too long for a link." };
}

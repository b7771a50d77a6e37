/** Queries and mutations: POST to the public GraphQL API, with the token of the signed-in user. */

import type { DocumentTypeDecoration } from "@graphql-typed-document-node/core";

import { addressOf } from "./address";
import { ApiError, type GraphqlError } from "./errors";
import { parseExact } from "./exact_json";
import { authorization, replaceToken, signInState } from "./token";

export const ENDPOINT = addressOf("/graphql");
const UNAUTHORIZED = 401;

/** Text of an operation with the types of its result and its variables. */
export type TypedDocument<Data, Variables> = DocumentTypeDecoration<Data, Variables> & { toString(): string };

/** Data of a response. If parts of it are missing, `errors` says why. */
export interface Reply<Data> {
  data: Data;
  errors: readonly GraphqlError[];
}

interface Request {
  query: string;
  variables?: unknown;
  operationName?: string | null;
}

interface Body {
  data?: unknown;
  errors?: readonly GraphqlError[];
}

/**
 * Sends an operation. Rejects with `ApiError` if the response has no data, or if an error replaced each of its fields: a null
 * field without an error means that the object does not exist.
 */
export async function send<Data, Variables>(
  document: TypedDocument<Data, Variables>,
  variables: Variables,
  signal?: AbortSignal,
): Promise<Reply<Data>> {
  const { data, errors = [] } = await post({ query: document.toString(), variables }, signal);
  if (!data) {
    throw ApiError.of(errors.length > 0 ? errors : [{ message: "The response has neither data nor errors." }]);
  }
  if (errors.length > 0 && Object.values(data).every((field) => field === null)) {
    throw ApiError.of(errors);
  }
  return { data: data as Data, errors };
}

/**
 * Posts a request and returns the body of the response. `written` are headers that the user wrote in GraphiQL. If the server
 * refuses the token, the user can replace it, unless the request has a written token. After a sign-out the request is not
 * sent again: the next user did not ask for it.
 */
export async function post(request: Request, signal?: AbortSignal, written?: HeadersInit): Promise<Body> {
  const { token, session } = signInState();
  const isOwnToken = !new Headers(written).has("authorization");
  const response = await reach(request, signal ?? null, written);
  if (response.status === UNAUTHORIZED && isOwnToken && (await replaceToken(token)) && signInState().session === session) {
    return post(request, signal, written);
  }
  const text = await response.text();
  try {
    return parseExact(text) as Body;
  } catch {
    throw new ApiError("UNREACHABLE", `The response (status ${response.status}) is not JSON: ${text.slice(0, 200)}`);
  }
}

/** Returns the headers of a request. A written header replaces the console's, however its name is written. */
function headersWith(written?: HeadersInit): Headers {
  const headers = new Headers({
    "content-type": "application/json",
    accept: "application/graphql-response+json, application/json;q=0.9",
    ...authorization(),
  });
  new Headers(written).forEach((value, name) => headers.set(name, value));
  return headers;
}

async function reach(request: Request, signal: AbortSignal | null, written?: HeadersInit): Promise<Response> {
  try {
    return await fetch(ENDPOINT, {
      method: "POST",
      headers: headersWith(written),
      body: JSON.stringify(request),
      signal,
    });
  } catch (fault) {
    if (signal?.aborted) {
      throw fault;
    }
    throw new ApiError("UNREACHABLE", "The server can't be reached.");
  }
}

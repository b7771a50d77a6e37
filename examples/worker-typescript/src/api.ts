// Client of the GraphQL API: sends typed operations, and repeats them while the server is away.

import { setTimeout as sleep } from "node:timers/promises";

import { type ExecutionResult, type GraphQLFormattedError } from "graphql";
import { createClient } from "graphql-ws";
import WebSocket from "ws";

import { FollowDocument, type EventStart, type FollowSubscription, type TypedDocumentString } from "./gql/graphql.js";

const LONGEST_PAUSE_MS = 10_000;
/** Codes of errors[] after which the same request may succeed (docs/errors.md). */
const RETRYABLE = ["OVERLOADED", "SHUTTING_DOWN", "STREAM_UNAVAILABLE", "SHARD_UNAVAILABLE", "TIMEOUT"];

/** The server refused a request, and would refuse a repeat. */
export class Refused extends Error {}
/** The server could not carry out a request; a repeat may succeed. */
class Unavailable extends Error {}

interface UserError {
  code: string;
  message: string;
  retryable: boolean;
}
/** A payload with its errors and those of its items. */
interface Payload {
  userErrors?: UserError[];
  results?: Payload[];
  rejected?: Payload[];
}

/**
 * Sends operations to one server. Every operation of the worker may be sent again: execute has a dedup key, events have
 * ids, and leases have tokens.
 */
export class Api {
  readonly #url: string;
  readonly #authorization: Record<string, string>;

  constructor(url: string) {
    this.#url = url;
    const token = process.env["NOETL_TOKEN"];
    this.#authorization = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  }

  /** Returns the result of a root field, which must not be null; repeats the operation until the server responds. */
  async send<Root extends string, Result extends Partial<Record<Root, unknown>>, Variables>(
    document: TypedDocumentString<Result, Variables>,
    root: Root & keyof Result,
    variables: Variables,
  ): Promise<NonNullable<Result[Root & keyof Result]>> {
    for (let pause = 200; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      try {
        const data = await this.#post(document, variables);
        for (const payload of Object.values(data)) check((payload ?? {}) as Payload);
        const payload = data[root];
        if (payload === null || payload === undefined) throw new Refused(`${root} is null`);
        return payload;
      } catch (error) {
        if (error instanceof Refused) throw error;
        console.error(`${root} failed, next attempt in ${pause} ms: ${String(error)}`);
      }
      await sleep(pause);
    }
  }

  async #post<Result, Variables>(document: TypedDocumentString<Result, Variables>, variables: Variables) {
    const response = await fetch(this.#url, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...this.#authorization },
      body: JSON.stringify({ query: document.toString(), variables }),
      signal: AbortSignal.timeout(20_000),
    });
    const { data, errors } = (await response.json()) as ExecutionResult<Result>;
    if (errors !== undefined) throw fault(errors);
    if (!response.ok || !data) throw new Unavailable(`status ${response.status}`);
    return data;
  }

  /** Yields the items of the live events until the connection ends. */
  async *follow(start: EventStart): AsyncGenerator<FollowSubscription["events"]> {
    const client = createClient({
      url: this.#url.replace(/^http/, "ws"),
      webSocketImpl: WebSocket,
      connectionParams: this.#authorization,
      // A retry of graphql-ws would subscribe with the first cursor again. The caller continues from the last one.
      retryAttempts: 0,
      keepAlive: 10_000,
    });
    try {
      for await (const { data, errors } of client.iterate<FollowSubscription>({
        query: FollowDocument.toString(),
        variables: { start },
      })) {
        if (errors !== undefined) throw fault(errors);
        if (data) yield data.events;
      }
    } catch (error) {
      throw Array.isArray(error) ? fault(error as GraphQLFormattedError[]) : error;
    } finally {
      await client.dispose();
    }
  }
}

/** Throws the first error of a payload or of one of its items. */
function check(payload: Payload): void {
  for (const part of [payload, ...(payload.results ?? []), ...(payload.rejected ?? [])]) {
    for (const { code, message, retryable } of part.userErrors ?? []) {
      throw new (retryable ? Unavailable : Refused)(`${code}: ${message}`);
    }
  }
}

function fault(errors: readonly GraphQLFormattedError[]): Error {
  const text = errors.map((error) => error.message).join("; ");
  const retryable = errors.every((error) => RETRYABLE.includes(String(error.extensions?.["code"])));
  return new (retryable ? Unavailable : Refused)(text);
}

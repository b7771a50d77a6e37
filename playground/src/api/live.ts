/**
 * Live subscriptions that survive a lost connection, a restarted server and a restarted broker. The variables are read
 * again for each attempt, so a stream with a cursor continues where it stopped.
 */

import type { TypedDocument } from "./client";
import { ApiError, isRetryable, toApiError, type GraphqlError } from "./errors";
import { connectionState, retryWait, socket, subscribeConnection } from "./socket";

export type LiveState = "connecting" | "live" | "reconnecting" | "ended";

export interface LiveObserver<Data> {
  next: (data: Data) => void;
  /** Called when the state changes. `ended` comes with the error that ended the stream, if there is one. */
  state: (state: LiveState, error?: ApiError) => void;
}

interface Options {
  /** Whether the server may end the stream. Otherwise an ended stream is opened again (default false). */
  finite?: boolean;
  /** Whether the server sends nothing while there is nothing to report. Then a connection without an error is live (default false). */
  quiet?: boolean;
}

/** Time without an error after which a quiet stream is live. */
const QUIET_MS = 1_000;

/** Follows a live subscription until the returned function is called. */
export function follow<Data, Variables>(
  document: TypedDocument<Data, Variables>,
  variables: () => Variables,
  observer: LiveObserver<Data>,
  options: Options = {},
): () => void {
  const stream = new LiveStream(document.toString(), variables, observer, options);
  stream.open();
  return stream.close;
}

class LiveStream<Data, Variables> {
  private dispose: (() => void) | null = null;
  private readonly forget: () => void;
  private attempts = 0;
  private closed = false;
  private shown: LiveState | null = null;
  private quiet: number | undefined;

  constructor(
    private readonly query: string,
    private readonly variables: () => Variables,
    private readonly observer: LiveObserver<Data>,
    private readonly options: Options,
  ) {
    this.forget = subscribeConnection(() => this.connectionChanged());
  }

  open(): void {
    let failure: ApiError | undefined;
    const { query, variables } = this;
    // The socket reads the payload again when it reconnects.
    const payload = {
      query,
      get variables() {
        return variables() as Record<string, unknown>;
      },
    };
    this.show(this.attempts === 0 ? "connecting" : "reconnecting");
    this.dispose = socket.subscribe<Data>(payload, {
      next: (result) => {
        if (result.errors?.length) {
          failure = ApiError.of(result.errors as readonly GraphqlError[]);
        }
        if (result.data) {
          this.take(result.data);
        }
      },
      error: (fault) => this.ended(toApiError(fault)),
      complete: () => this.ended(failure),
    });
    this.expectNothing();
  }

  readonly close = (): void => {
    this.closed = true;
    window.clearTimeout(this.quiet);
    this.forget();
    this.dispose?.();
  };

  private take(data: Data): void {
    this.attempts = 0;
    this.show("live");
    this.observer.next(data);
  }

  private ended(error: ApiError | undefined): void {
    window.clearTimeout(this.quiet);
    if (this.closed) {
      return;
    }
    const again = error ? isRetryable(error) : !this.options.finite;
    if (again) {
      void this.openLater();
    } else {
      this.forget();
      this.show("ended", error);
    }
  }

  private async openLater(): Promise<void> {
    this.attempts += 1;
    this.show("reconnecting");
    await retryWait(this.attempts);
    if (!this.closed) {
      this.open();
    }
  }

  private connectionChanged(): void {
    if (!this.closed && this.shown === "live" && connectionState() === "reconnecting") {
      this.show("reconnecting");
    }
    this.expectNothing();
  }

  /** Shows a quiet stream as live when its connection has been open for a while without an error. */
  private expectNothing(): void {
    window.clearTimeout(this.quiet);
    if (this.options.quiet && !this.closed && connectionState() === "live") {
      this.quiet = window.setTimeout(() => this.show("live"), QUIET_MS);
    }
  }

  private show(state: LiveState, error?: ApiError): void {
    if (state !== this.shown) {
      this.shown = state;
      this.observer.state(state, error);
    }
  }
}

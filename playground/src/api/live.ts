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
}

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
  }

  readonly close = (): void => {
    this.closed = true;
    this.forget();
    this.dispose?.();
  };

  private take(data: Data): void {
    this.attempts = 0;
    this.show("live");
    this.observer.next(data);
  }

  private ended(error: ApiError | undefined): void {
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
  }

  private show(state: LiveState, error?: ApiError): void {
    if (state !== this.shown) {
      this.shown = state;
      this.observer.state(state, error);
    }
  }
}

/**
 * Messages between the tabs of one console: a tab asks for a token, and a tab that has one sends it. A sign-out is a message
 * only if the storage has no room for it (`kept_token.ts`). Messages stay in the browser and reach every page of this origin
 * that listens. Servers below other paths of the same host have channels of their own, because none of them may get the
 * token of another one.
 */

import { BASE_PATH } from "./address";

/** Time in milliseconds within which another tab is expected to answer. */
const WAIT_MS = 250;

export interface OfferedToken {
  token: string;
  /** Number of sign-outs before the token was used (`kept_token.ts`). */
  session: number;
}

type Message = OfferedToken | "wanted" | "signed out";

export class OtherTabs {
  private readonly channel = new BroadcastChannel(`noetl-token:${BASE_PATH}`);
  private received = () => {};

  /**
   * `own` returns the token of this tab; null if it has none. `take` returns whether this tab uses the offered token.
   * `endSession` is called after a sign-out in another tab.
   */
  constructor(
    private readonly own: () => OfferedToken | null,
    take: (offered: OfferedToken) => boolean,
    endSession: () => void,
  ) {
    this.channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data === "wanted") {
        this.offer();
      } else if (data === "signed out") {
        endSession();
      } else if (take(data)) {
        this.received();
      }
    };
  }

  /** Sends the token of this tab to the tabs that need one. */
  offer(): void {
    const own = this.own();
    if (own) {
      this.channel.postMessage(own satisfies Message);
    }
  }

  /** Ends the sessions of the other tabs. */
  signOut(): void {
    this.channel.postMessage("signed out" satisfies Message);
  }

  /** Asks for a token, and waits until one is taken, or until no answer is expected any more. */
  async ask(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.received = resolve;
    window.setTimeout(resolve, WAIT_MS);
    this.channel.postMessage("wanted" satisfies Message);
    await promise;
  }
}

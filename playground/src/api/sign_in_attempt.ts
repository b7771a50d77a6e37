/**
 * Sign-in at the provider in a window of its own, by the authorization code flow with PKCE. The page under the dialog
 * stays as it is. The secrets of an attempt exist only in the memory of this page, and each attempt has its own.
 */

import { addressOf } from "./address";
import { challengeOf, hasForeignNonce, newSecrets } from "./pkce";
import { receiveReply, SIGNED_IN_PATH, type ProviderReply } from "./sign_in_channel";
import { SignInFailure } from "./sign_in_failure";
import { redeem, type Invitation } from "./sign_in_routes";

const WINDOW = "popup,width=520,height=680";
const WATCH_MS = 500;

/** `closed` still accepts a reply, because some providers hide from the page whether their window is open. */
export type SignInProgress =
  | { step: "waiting" | "closed" | "exchanging" }
  | { step: "failed"; failure: SignInFailure }
  | { step: "done"; token: string };

/** Opens the window and reports the progress. The returned function ends the attempt. Call it in the handler of a click. */
export function startSignIn(invitation: Invitation, show: (progress: SignInProgress) => void): () => void {
  const attempt = new SignInAttempt(invitation, show);
  attempt.open();
  return attempt.stop;
}

class SignInAttempt {
  private readonly secrets = newSecrets();
  private readonly redirectUri = addressOf(SIGNED_IN_PATH);
  private readonly stopped = new AbortController();
  private window: Window | null = null;
  private watch: number | undefined;
  private forget = () => {};

  constructor(
    private readonly invitation: Invitation,
    private readonly show: (progress: SignInProgress) => void,
  ) {}

  open(): void {
    if (!window.isSecureContext) {
      this.fail(new SignInFailure("The browser permits this sign-in only over https.", "Open the console at an https:// address, or use a token."));
      return;
    }
    // The window opens before anything is awaited, because browsers block one that does not belong to a click.
    this.window = window.open("about:blank", "_blank", WINDOW);
    if (!this.window) {
      this.fail(new SignInFailure("The browser blocked the sign-in window.", "Permit pop-up windows for this page, and try again."));
      return;
    }
    // The provider's page can't reach this one.
    this.window.opener = null;
    this.forget = receiveReply(this.secrets.state, (reply) => this.take(reply));
    this.watch = window.setInterval(() => this.window?.closed && this.windowClosed(), WATCH_MS);
    this.show({ step: "waiting" });
    void this.sendToProvider(this.window);
  }

  readonly stop = (): void => {
    this.stopped.abort();
    this.end();
  };

  private async sendToProvider(target: Window): Promise<void> {
    const address = new URL(this.invitation.authorizationEndpoint);
    const parameters = {
      response_type: "code",
      client_id: this.invitation.clientId,
      scope: this.invitation.scopes,
      redirect_uri: this.redirectUri,
      state: this.secrets.state,
      nonce: this.secrets.nonce,
      code_challenge: await challengeOf(this.secrets.verifier),
      code_challenge_method: "S256",
    };
    for (const [name, value] of Object.entries(parameters)) {
      address.searchParams.set(name, value);
    }
    target.location.replace(address);
  }

  private windowClosed(): void {
    window.clearInterval(this.watch);
    this.show({ step: "closed" });
  }

  private take(reply: ProviderReply): void {
    if (reply.code) {
      void this.exchange(reply.code);
    } else {
      this.fail(SignInFailure.ofProvider(reply));
    }
  }

  private async exchange(code: string): Promise<void> {
    this.end();
    this.show({ step: "exchanging" });
    try {
      const { redirectUri, secrets } = this;
      const token = await redeem({ code, verifier: secrets.verifier, redirectUri }, this.stopped.signal);
      if (hasForeignNonce(token, secrets.nonce)) {
        throw new SignInFailure("The token belongs to another sign-in.", "Try again.");
      }
      this.show({ step: "done", token });
    } catch (fault) {
      if (!this.stopped.signal.aborted) {
        this.fail(fault instanceof SignInFailure ? fault : new SignInFailure(String(fault), "Try again."));
      }
    }
  }

  private fail(failure: SignInFailure): void {
    this.end();
    this.show({ step: "failed", failure });
  }

  private end(): void {
    window.clearInterval(this.watch);
    this.forget();
    this.window?.close();
  }
}

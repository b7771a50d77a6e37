/** Failures of a sign-in at the provider, each with advice for the user. */

import type { ProviderReply } from "./sign_in_channel";

const ASK = "Show this message to the administrator of this server, or use a token.";
const LATER = "Try again later, or use a token.";

/** Advice for the errors that a provider can send (RFC 6749, section 4.1.2.1). The others are wrong settings. */
const ADVICE: Record<string, string> = {
  access_denied: "Try again and permit the sign-in. If your account has no access, ask your administrator.",
  server_error: LATER,
  temporarily_unavailable: LATER,
};

export class SignInFailure extends Error {
  override readonly name = "SignInFailure";

  constructor(
    message: string,
    readonly advice: string,
  ) {
    super(message);
  }

  /** Returns the failure for a reply of the provider without a code. */
  static ofProvider({ error, description }: ProviderReply): SignInFailure {
    if (!error) {
      return new SignInFailure("The provider sent no code.", ASK);
    }
    const reason = description ? `${description} (${error})` : error;
    return new SignInFailure(`The provider refused the sign-in: ${reason}`, ADVICE[error] ?? ASK);
  }

  /** Returns the failure for an error of the server. A server error means that the provider can't be used now. */
  static ofServer(status: number, message: string): SignInFailure {
    return new SignInFailure(sentence(message), status >= 500 ? LATER : ASK);
  }
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

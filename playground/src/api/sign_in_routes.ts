/** Routes of the server for the sign-in at the provider. The server sends all requests to the provider. */

import { addressOf } from "./address";
import { SignInFailure } from "./sign_in_failure";

/** What the page needs to send the user to the provider. */
export interface Invitation {
  authorizationEndpoint: string;
  clientId: string;
  /** Separated by spaces. */
  scopes: string;
}

export interface Code {
  code: string;
  verifier: string;
  redirectUri: string;
}

/** Returns the invitation; null if the server has no provider. Rejects with `SignInFailure`. */
export async function readInvitation(signal: AbortSignal): Promise<Invitation | null> {
  return (await bodyOf(await reach(addressOf("/auth/sign-in"), { signal }))) as Invitation | null;
}

/** Exchanges a code for a token. Rejects with `SignInFailure`. */
export async function redeem({ code, verifier, redirectUri }: Code, signal: AbortSignal): Promise<string> {
  const form = new URLSearchParams({ code, verifier, redirectUri });
  const { token } = (await bodyOf(await reach(addressOf("/auth/token"), { method: "POST", body: form, signal }))) as { token: string };
  return token;
}

async function reach(address: string, request: RequestInit & { signal: AbortSignal }): Promise<Response> {
  try {
    return await fetch(address, request);
  } catch (fault) {
    if (request.signal.aborted) {
      throw fault;
    }
    throw new SignInFailure("The server can't be reached.", "Check that the server runs, and try again.");
  }
}

async function bodyOf(response: Response): Promise<unknown> {
  const body: unknown = await response.json().catch(() => ({}));
  if (!response.ok) {
    const { error } = (body ?? {}) as { error?: string };
    throw SignInFailure.ofServer(response.status, error ?? `The server returned the status ${response.status}`);
  }
  return body;
}

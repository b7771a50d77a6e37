/** Secrets of one sign-in: proof key for code exchange (RFC 7636), state (RFC 6749, section 10.12) and nonce. */

const BYTES = 32;

export interface SignInSecrets {
  /** Sent to the token endpoint alone. It proves that the page that asked for a code is the one that uses it. */
  verifier: string;
  /** Comes back with the reply of the provider, and shows which sign-in it belongs to. */
  state: string;
  /** Comes back in an id token, and shows that the token was issued for this sign-in. */
  nonce: string;
}

export function newSecrets(): SignInSecrets {
  return { verifier: randomText(), state: randomText(), nonce: randomText() };
}

/** Returns the challenge of a verifier: its SHA-256. */
export async function challengeOf(verifier: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  return base64url(new Uint8Array(digest));
}

/** Returns whether a token is an id token of another sign-in. Tokens without a nonce are not id tokens of this flow. */
export function hasForeignNonce(token: string, nonce: string): boolean {
  const found = claimsOf(token)?.nonce;
  return found !== undefined && found !== nonce;
}

function claimsOf(token: string): { nonce?: unknown } | null {
  try {
    const [, payload = ""] = token.split(".");
    return JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/"))) as { nonce?: unknown } | null;
  } catch {
    return null;
  }
}

function randomText(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(BYTES)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

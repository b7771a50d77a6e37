/**
 * Token of the signed-in user, for all requests of this tab. It is a token that the user typed, one of the provider
 * (`sign_in_attempt.ts`), or that of another tab (`other_tabs.ts`). It outlives a reload (`kept_token.ts`) until the user
 * signs out in any tab, or until the server refuses it. Everything that needs a token waits for one shared dialog, which
 * `app/sign_in_dialog.tsx` shows.
 */

import { BASE_PATH } from "./address";
import { KeptToken } from "./kept_token";
import { OtherTabs, type OfferedToken } from "./other_tabs";

/** Reason the dialog is open: the server requires a token, refused the last one, or the user asked for the dialog. */
export type SignInReason = "required" | "refused" | "requested";

export interface SignIn {
  token: string | null;
  asking: SignInReason | null;
  /** Number of ended sessions. What a view holds belongs to one session, so it is dropped when the number changes. */
  session: number;
}

const kept = new KeptToken(BASE_PATH, window.sessionStorage, window.localStorage);
const otherTabs = new OtherTabs(offered, take, endSession);
/** Tokens that the server refused. They are neither taken from another tab nor sent to it. */
const refusedTokens = new Set<string>();

let state: SignIn = { token: kept.read(), asking: null, session: 0 };
/** Number of sign-outs that this page knows. */
let signOuts = kept.session();
let declined = false;
let closed: PromiseWithResolvers<void> | undefined;
let replacing: Promise<void> | undefined;
const listeners = new Set<() => void>();

// The user may sign out in another tab, also while the browser holds this page back.
for (const event of ["storage", "pageshow"]) {
  window.addEventListener(event, () => {
    if (kept.session() !== signOuts) {
      endSession();
    }
  });
}

export function subscribeSignIn(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function signInState(): SignIn {
  return state;
}

/** Returns the Authorization header; empty without a token. */
export function authorization(): Record<string, string> {
  return state.token ? { Authorization: `Bearer ${state.token}` } : {};
}

/**
 * Takes the token of another tab if this one has none, or asks the user for one, unless the last dialog was cancelled. False
 * if there is no other token.
 */
export async function replaceToken(refused: string | null): Promise<boolean> {
  if (state.token === refused) {
    replacing ??= replace(refused).finally(() => {
      replacing = undefined;
    });
    await replacing;
  }
  return state.token !== refused;
}

/** Opens the dialog because the user asked for it. */
export function requestSignIn(): void {
  open("requested");
}

/** Closes the dialog. Without a token, the user has cancelled it. */
export function closeSignIn(token: string | null): void {
  if (token === null) {
    declined = true;
    answer({ ...state, asking: null });
  } else {
    refusedTokens.delete(token);
    use(token);
    otherTabs.offer();
  }
}

/** Signs out in all tabs. A message ends the sessions of the other tabs if the storage has no room for the number. */
export function signOut(): void {
  try {
    kept.countSignOut();
  } catch {
    otherTabs.signOut();
  }
  endSession();
}

/** Waits until a refused token is replaced, and until the dialog is closed. */
export async function signInAnswered(): Promise<void> {
  await (replacing ?? closed?.promise);
}

async function replace(refused: string | null): Promise<void> {
  if (refused !== null) {
    refusedTokens.add(refused);
    kept.forget();
  }
  if (refused === null && !declined) {
    await otherTabs.ask();
  }
  if (state.token === refused && !declined) {
    open(refused === null ? "required" : "refused");
    await closed?.promise;
  }
}

function open(reason: SignInReason): void {
  closed ??= Promise.withResolvers<void>();
  show({ ...state, asking: state.asking ?? reason });
}

function use(token: string): void {
  kept.keep(token);
  declined = false;
  answer({ ...state, token, asking: null });
}

function answer(change: SignIn): void {
  show(change);
  closed?.resolve();
  closed = undefined;
}

/** Drops the token. An open dialog stays, because requests wait for it. */
function endSession(): void {
  kept.forget();
  declined = false;
  signOuts = kept.session();
  show({ ...state, token: null, session: state.session + 1 });
}

/** Returns the token for another tab; null if there is none that the server may accept. */
function offered(): OfferedToken | null {
  const { token } = state;
  return token === null || refusedTokens.has(token) ? null : { token, session: signOuts };
}

/**
 * Uses the token of another tab if this one has none and waits for one. A refused token is replaced by the user: the other tab
 * can be that of another user. A dialog that the user asked for is for another token.
 */
function take({ token, session }: OfferedToken): boolean {
  const isWaiting = replacing !== undefined && state.token === null && state.asking !== "requested";
  const isTaken = isWaiting && session === signOuts && !refusedTokens.has(token);
  if (isTaken) {
    use(token);
  }
  return isTaken;
}

function show(change: SignIn): void {
  state = change;
  for (const listener of listeners) {
    listener();
  }
}

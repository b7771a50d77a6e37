/**
 * Token of the signed-in user. It exists only in the memory of this page, so a reload asks for it again. It is a token that
 * the user typed, or one of the provider (`sign_in_attempt.ts`). Everything that needs a token waits for one shared dialog,
 * which `app/sign_in_dialog.tsx` shows.
 */

/** Reason the dialog is open: the server requires a token, refused the last one, or the user asked for the dialog. */
export type SignInReason = "required" | "refused" | "requested";

export interface SignIn {
  token: string | null;
  asking: SignInReason | null;
  /** Number of sign-outs. What a view holds belongs to one session, so it is dropped when the number changes. */
  session: number;
}

let state: SignIn = { token: null, asking: null, session: 0 };
let declined = false;
let closed: PromiseWithResolvers<void> | undefined;
const listeners = new Set<() => void>();

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

/** Asks the user to replace a refused token, unless the last dialog was cancelled. False if there is no other token. */
export async function replaceToken(refused: string | null): Promise<boolean> {
  if (state.token === refused && !declined) {
    open(refused === null ? "required" : "refused");
    await closed?.promise;
  }
  return state.token !== refused;
}

/** Opens the dialog because the user asked for it. */
export function requestSignIn(): void {
  open("requested");
}

/** Closes the dialog. Without a token, the user has cancelled it. */
export function closeSignIn(token: string | null): void {
  declined = token === null;
  show({ ...state, token: token ?? state.token, asking: null });
  closed?.resolve();
  closed = undefined;
}

export function signOut(): void {
  declined = false;
  show({ token: null, asking: null, session: state.session + 1 });
}

/** Waits until the dialog is closed, if it is open. */
export async function signInAnswered(): Promise<void> {
  await closed?.promise;
}

function open(reason: SignInReason): void {
  closed ??= Promise.withResolvers<void>();
  show({ ...state, asking: state.asking ?? reason });
}

function show(change: SignIn): void {
  state = change;
  for (const listener of listeners) {
    listener();
  }
}

import { expect, test, vi } from "vitest";

const full = {
  getItem: () => null,
  setItem() {
    throw new DOMException("The storage is full.", "QuotaExceededError");
  },
  removeItem() {},
};

test("a sign-out ends the session of each tab also if the storage is full, once", async () => {
  const listeners: Record<string, () => void> = {};
  const posted: unknown[] = [];
  const channel: { onmessage?: (message: { data: unknown }) => void } = {};
  vi.stubGlobal("document", { baseURI: "http://noetl.example/" });
  vi.stubGlobal("window", {
    sessionStorage: full,
    localStorage: full,
    addEventListener: (event: string, listener: () => void) => (listeners[event] = listener),
  });
  vi.stubGlobal("BroadcastChannel", function BroadcastChannel() {
    return Object.assign(channel, { postMessage: (message: unknown) => posted.push(message) });
  });
  const { closeSignIn, signInState, signOut } = await import("../src/api/token");
  const { session } = signInState();
  closeSignIn("noetl_a");
  signOut();
  listeners["storage"]?.();
  expect(signInState()).toMatchObject({ token: null, session: session + 1 });
  expect(posted).toEqual([{ token: "noetl_a", session: 0 }, "signed out"]);

  closeSignIn("noetl_b");
  channel.onmessage?.({ data: "signed out" });
  expect(signInState()).toMatchObject({ token: null, session: session + 2 });
});

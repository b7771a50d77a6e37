/**
 * Loads the parts of the console that are not in the first load, such as its views. While the server is away, a part waits
 * and is loaded when the server is back. It is not requested before, because browsers keep the failure of an import until
 * the page is reloaded (https://github.com/whatwg/html/issues/6768).
 */

import { addressOf } from "../api/address";
import { connectionState } from "../api/socket";

/** Pause between two requests that check whether the server is back, in milliseconds. */
const PAUSE_MS = 1_000;
/** Longest wait for the response to such a request, in milliseconds. */
const RESPONSE_MS = 5_000;

let waiting = 0;
const listeners = new Set<() => void>();

/** A part could not be loaded though the server is there. Its files may be those of another version. */
export class PartMissing extends Error {
  override readonly name = "PartMissing";
}

/** Returns a loader of a part that waits while the server is away. It rejects with `PartMissing`. */
export function part<Module>(load: () => Promise<Module>): () => Promise<Module> {
  return async () => {
    if (connectionState() === "reconnecting") {
      await serverIsBack();
    }
    try {
      return await load();
    } catch (fault) {
      await serverIsBack();
      throw new PartMissing(String(fault), { cause: fault });
    }
  };
}

/** Calls a listener when a part begins or ends to wait for the server. */
export function subscribeParts(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Returns whether a part waits for the server. */
export function isServerAwaited(): boolean {
  return waiting > 0;
}

/** Waits until the server sends the page. A proxy in front of it may respond while it is away, with an error. */
async function serverIsBack(): Promise<void> {
  if (await sendsPage()) {
    return;
  }
  count(1);
  do {
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  } while (!(await sendsPage()));
  count(-1);
}

function count(change: 1 | -1): void {
  waiting += change;
  listeners.forEach((listener) => listener());
}

async function sendsPage(): Promise<boolean> {
  try {
    const response = await fetch(addressOf("/"), { cache: "no-store", signal: AbortSignal.timeout(RESPONSE_MS) });
    return response.ok;
  } catch {
    return false;
  }
}

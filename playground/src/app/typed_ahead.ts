/** Keeps the characters that the user types after the request for the command palette and before its field has the focus. */

/** Time in milliseconds after which no more keys are kept, for example because the palette can't be loaded. */
const MAX_MS = 3_000;

let keys = "";
let timer: number | undefined;

/** Begins to keep keys. The first element that gets the focus ends it. */
export function keepKeys(): void {
  stop();
  keys = "";
  window.addEventListener("keydown", keep, { capture: true });
  window.addEventListener("focusin", stop);
  timer = window.setTimeout(stop, MAX_MS);
}

/** Returns the kept keys, once. */
export function takeKeys(): string {
  const taken = keys;
  keys = "";
  return taken;
}

function stop(): void {
  window.removeEventListener("keydown", keep, { capture: true });
  window.removeEventListener("focusin", stop);
  window.clearTimeout(timer);
}

function keep(event: KeyboardEvent): void {
  if (event.target instanceof Element && event.target.closest('[role="dialog"]')) {
    // The palette, or a dialog above it, has the focus already.
    stop();
  } else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    event.stopPropagation();
    keys += event.key;
  }
}

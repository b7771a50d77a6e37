/** The token that the server asks for. It is kept for this tab only, and sent in a header or in connection_init. */

const STORED = "noetl.token";
let asking: Promise<void> | undefined;
let declined = false;

/** What identifies the user: empty as long as no token is known. */
export function authorization(): Record<string, string> {
  const token = current();
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** The token in use, to be told apart from a later one. */
export function current(): string | null {
  return window.sessionStorage.getItem(STORED);
}

/** Asks for another token than the refused one, once for everyone who needs it; false when the user gives none. */
export async function replaceToken(refused: string | null): Promise<boolean> {
  if (current() === refused) {
    asking ??= ask().finally(() => (asking = undefined));
    await asking;
  }
  return current() !== refused;
}

/** The same for what nobody asked for just now: a user who has given no token is left in peace until the next request. */
export async function replaceTokenInBackground(refused: string | null): Promise<void> {
  if (!declined) {
    await replaceToken(refused);
  }
}

/** Waits while the user is asked. */
export async function answered(): Promise<void> {
  await asking;
}

async function ask(): Promise<void> {
  const dialog = document.createElement("dialog");
  dialog.className = "token";
  dialog.innerHTML = `
    <form method="dialog">
      <label for="token">This server asks for a token.</label>
      <input id="token" type="password" autocomplete="off" spellcheck="false" placeholder="noetl_… or a JWT" />
      <menu><button value="cancel" formnovalidate>Cancel</button><button value="use">Use it</button></menu>
      <p>It is kept until this tab is closed.</p>
    </form>`;
  const input = dialog.querySelector("input");
  const ended = new Promise<void>((resolve) => dialog.addEventListener("close", () => resolve(), { once: true }));
  // Enter presses the first button of a form.
  input?.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      dialog.close("use");
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  input?.focus();
  await ended;
  dialog.remove();
  const token = input?.value.trim().replace(/^bearer\s+/i, "");
  declined = dialog.returnValue !== "use" || !token;
  if (token && !declined) {
    window.sessionStorage.setItem(STORED, token);
  }
}

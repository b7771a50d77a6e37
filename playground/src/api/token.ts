/** The user's token. It is stored for this tab only, and sent in a header or in connection_init. */

const STORED = "noetl.token";
let asking: Promise<void> | undefined;
let declined = false;

/** Returns the Authorization header; empty without a token. */
export function authorization(): Record<string, string> {
  const token = current();
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** Returns the token in use. */
export function current(): string | null {
  return window.sessionStorage.getItem(STORED);
}

/** Asks the user to replace a refused token. Concurrent calls share one dialog. False if the user gives no token. */
export async function replaceToken(refused: string | null): Promise<boolean> {
  if (current() === refused) {
    asking ??= ask().finally(() => (asking = undefined));
    await asking;
  }
  return current() !== refused;
}

/** Asks for a token for background activity, unless the user has cancelled the last dialog. */
export async function replaceTokenInBackground(refused: string | null): Promise<void> {
  if (!declined) {
    await replaceToken(refused);
  }
}

/** Waits until the dialog is closed, if one is open. */
export async function answered(): Promise<void> {
  await asking;
}

async function ask(): Promise<void> {
  const dialog = document.createElement("dialog");
  dialog.className = "token";
  dialog.innerHTML = `
    <form method="dialog">
      <label for="token">This server requires a token.</label>
      <input id="token" type="password" autocomplete="off" spellcheck="false" placeholder="noetl_… or a JWT" />
      <menu><button value="cancel" formnovalidate>Cancel</button><button value="use">Use it</button></menu>
      <p>The token is kept until this tab is closed.</p>
    </form>`;
  const input = dialog.querySelector("input");
  const ended = new Promise<void>((resolve) => dialog.addEventListener("close", () => resolve(), { once: true }));
  // Enter would press the form's first button, which is Cancel.
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

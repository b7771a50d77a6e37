/**
 * Token of the signed-in user in the session storage of the tab, so that it outlives a reload. The number of sign-outs is in
 * the local storage, which all tabs share. A token belongs to the number with which it was kept, so a sign-out also ends
 * the session of a tab that does not run then: a discarded one, or one that shows another site.
 */

/** Length of the stored number of sign-outs. */
const DIGITS = 8;

export class KeptToken {
  private readonly tokenKey: string;
  private readonly signOutsKey: string;

  /** `path` is that of the server: servers below other paths of the same host have keys of their own. */
  constructor(
    path: string,
    private readonly ofTab: Storage,
    private readonly ofBrowser: Storage,
  ) {
    this.tokenKey = `noetl.token:${path}`;
    this.signOutsKey = `noetl.sign-outs:${path}`;
  }

  /** Returns the number of sign-outs in this browser. */
  session(): number {
    return Number.parseInt(this.ofBrowser.getItem(this.signOutsKey) ?? "", 10) || 0;
  }

  /** Returns the token; null if the tab has none. Forgets a token that was kept before a sign-out in any tab. */
  read(): string | null {
    const kept = this.ofTab.getItem(this.tokenKey);
    const current = `${this.session()} `;
    if (kept?.startsWith(current)) {
      return kept.slice(current.length);
    }
    this.forget();
    return null;
  }

  /** Keeps the token, unless a storage is full: then only the memory of the page has it. */
  keep(token: string): void {
    try {
      this.reserveSignOut();
      this.ofTab.setItem(this.tokenKey, `${this.session()} ${token}`);
    } catch {
      this.forget();
    }
  }

  forget(): void {
    this.ofTab.removeItem(this.tokenKey);
  }

  /** Makes the kept tokens of all tabs invalid. */
  countSignOut(): void {
    this.writeSignOuts(this.session() + 1);
  }

  /** Takes the room of the number, so that a sign-out can be counted when other data has filled the storage. */
  private reserveSignOut(): void {
    if (this.ofBrowser.getItem(this.signOutsKey) === null) {
      this.writeSignOuts(0);
    }
  }

  /** Numbers of equal length can replace each other in a full storage. */
  private writeSignOuts(signOuts: number): void {
    this.ofBrowser.setItem(this.signOutsKey, String(signOuts).padStart(DIGITS, "0"));
  }
}

/**
 * Token of the signed-in user in the session storage of the tab, so that it outlives a reload. The number of sign-outs is in
 * the local storage, which all tabs share. A token belongs to the number with which it was kept, so a sign-out also ends
 * the session of a tab that does not run then: a discarded one, or one that shows another site.
 */

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

  /** Returns the token; null if the tab has none, or if the user signed out in any tab since it was kept. */
  read(): string | null {
    const kept = this.ofTab.getItem(this.tokenKey);
    const current = `${this.session()} `;
    return kept?.startsWith(current) ? kept.slice(current.length) : null;
  }

  keep(token: string): void {
    this.ofTab.setItem(this.tokenKey, `${this.session()} ${token}`);
  }

  forget(): void {
    this.ofTab.removeItem(this.tokenKey);
  }

  /** Makes the kept tokens of all tabs invalid. */
  countSignOut(): void {
    this.ofBrowser.setItem(this.signOutsKey, String(this.session() + 1));
  }
}

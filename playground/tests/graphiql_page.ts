import { expect, type Page } from "@playwright/test";

/** The GraphiQL view. */
export class Graphiql {
  constructor(
    readonly page: Page,
    readonly url: string,
  ) {}

  async open(path = "/graphiql"): Promise<void> {
    await this.page.goto(this.url + path);
    await this.ready();
  }

  /** Waits until the editor shows a document. */
  async ready(): Promise<void> {
    await expect(this.page.locator(".graphiql-query-editor .view-line").first()).toBeVisible();
  }

  /**
   * Shows the tab with this only operation. GraphiQL parses a tab a moment after it is shown, and stores the query then.
   * Before, it sends the operation name of the previous tab.
   */
  async show(operation: string): Promise<void> {
    await this.tab(operation).click();
    await this.page.waitForFunction((name) => localStorage.getItem("graphiql:query")?.includes(` ${name}`), operation);
  }

  tab(title: string) {
    return this.page.getByRole("tab").filter({ has: this.page.getByRole("button", { name: title, exact: true }) });
  }

  get tabTitles() {
    return this.page.getByRole("tab").locator(".graphiql-tab-button");
  }

  /**
   * Runs the tab's only operation, or the named one of several. GraphiQL parses a tab after it is shown; then, if the
   * tab has several operations, the run button opens a menu.
   */
  async run(operation?: string): Promise<void> {
    const button = this.page.getByRole("button", { name: /^Execute query/ });
    if (operation) {
      await button.and(this.page.locator("[aria-haspopup=menu]")).click();
      await this.page.getByRole("menuitem", { name: operation, exact: true }).click();
    } else {
      await button.and(this.page.locator(":not([aria-haspopup])")).click();
    }
  }

  async stop(): Promise<void> {
    await this.page.getByRole("button", { name: /^Stop query/ }).click();
  }

  /** Returns the whole response. */
  answer(): Promise<string> {
    return this.content("response.json");
  }

  /** Returns the whole document. */
  document(): Promise<string> {
    return this.content("operation.graphql");
  }

  /** Returns the content of an editor, with the lines that it does not show. */
  private content(name: string): Promise<string> {
    return this.page.evaluate((end) => {
      const monaco = (globalThis as unknown as { __MONACO: typeof import("monaco-editor") }).__MONACO;
      const model = monaco.editor.getModels().find((candidate) => candidate.uri.path.endsWith(end));
      return model?.getValue() ?? "";
    }, name);
  }

  async expectAnswer(part: string | RegExp): Promise<void> {
    const matching = typeof part === "string" ? expect.stringContaining(part) : expect.stringMatching(part);
    await expect.poll(() => this.answer()).toEqual(matching);
  }

  /** Replaces the variables by pasting, because the editor adds closing brackets to typed text. */
  async pasteVariables(variables: object): Promise<void> {
    await this.page.evaluate((text) => navigator.clipboard.writeText(text), JSON.stringify(variables));
    await this.page.getByRole("region", { name: "Variables" }).locator(".view-lines").first().click();
    await this.page.keyboard.press("ControlOrMeta+A");
    await this.page.keyboard.press("ControlOrMeta+V");
  }
}

import { expect, test as base, type Page } from "@playwright/test";

import { startControlPlane, type ControlPlane } from "./control_plane";

/**
 * A test of the page as a user sees it. In every test, the page must send no request to another host, log no error on
 * the console, and not violate the content security policy.
 */
export const test = base.extend<{ playground: Playground }, { controlPlane: ControlPlane }>({
  controlPlane: [
    // The runner reads a fixture's dependencies from this parameter, which must be a pattern.
    // oxlint-disable-next-line no-empty-pattern
    async ({}, use) => {
      const controlPlane = await startControlPlane();
      await use(controlPlane);
      await controlPlane.stop();
    },
    { scope: "worker", timeout: 180_000 },
  ],
  playground: async ({ page, controlPlane }, use) => {
    const complaints = watch(page, new URL(controlPlane.url).host);
    await use(new Playground(page, controlPlane.url));
    expect(await refusedByPolicy(page)).toEqual([]);
    expect(complaints).toEqual([]);
  },
});

export { expect };

export class Playground {
  constructor(
    readonly page: Page,
    readonly url: string,
  ) {}

  async open(path = "/"): Promise<void> {
    await this.page.goto(this.url + path);
    await expect(this.page.locator(".graphiql-query-editor .view-line").first()).toBeVisible();
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

  /** Returns the whole response, with the lines that the editor does not show. */
  answer(): Promise<string> {
    return this.page.evaluate(() => {
      const monaco = (globalThis as unknown as { __MONACO: typeof import("monaco-editor") }).__MONACO;
      const model = monaco.editor.getModels().find((candidate) => candidate.uri.path.endsWith("response.json"));
      return model?.getValue() ?? "";
    });
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

  get liveLog() {
    const panel = this.page.getByRole("region", { name: "Live log" });
    return {
      panel,
      status: panel.getByRole("status"),
      rows: panel.locator(".live-log-event"),
      rowsOf: (executionId: string) => panel.locator(".live-log-event").filter({ hasText: executionId }),
      pause: () => panel.getByRole("button", { name: "Pause" }).click(),
      resume: () => panel.getByRole("button", { name: "Resume" }).click(),
      clear: () => panel.getByRole("button", { name: "Clear" }).click(),
      /** Waits until the log follows: the server has sent the start position. */
      following: () => expect(panel.getByText(/^caught up at/).first()).toBeVisible(),
    };
  }
}

function watch(page: Page, host: string): string[] {
  const complaints: string[] = [];
  const visit = (kind: string, address: string) => {
    const url = new URL(address);
    if (!["data:", "blob:"].includes(url.protocol) && url.host !== host) {
      complaints.push(`${kind} to another host: ${address}`);
    }
  };
  page.on("request", (request) => visit("request", request.url()));
  page.on("websocket", (socket) => visit("socket", socket.url()));
  page.on("pageerror", (error) => complaints.push(`uncaught: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error") {
      complaints.push(`console: ${message.text()}`);
    }
  });
  return complaints;
}

/** Returns the reported violations of the content security policy. Violations in workers are not on the console. */
async function refusedByPolicy(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const observed: string[] = [];
    new ReportingObserver(
      (reports) => {
        for (const report of reports) {
          observed.push(JSON.stringify(report.body));
        }
      },
      { types: ["csp-violation"], buffered: true },
    ).observe();
    return new Promise<string[]>((resolve) => requestAnimationFrame(() => setTimeout(() => resolve(observed))));
  });
}

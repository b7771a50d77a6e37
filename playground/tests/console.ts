import { expect, test as base, type Page } from "@playwright/test";

import { startControlPlane, type ControlPlane } from "./control_plane";
import { EventsPage } from "./events_page";
import { Graphiql } from "./graphiql_page";

/**
 * A test of the console as a user sees it. In every test, the page must send no request to another host or beside the path
 * of its address, log no error in the browser, and not violate the content security policy.
 */
export const test = base.extend<{ address: string; console: Console }, { controlPlane: ControlPlane }>({
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
  address: async ({ controlPlane }, use) => {
    await use(controlPlane.url);
  },
  console: async ({ page, address }, use) => {
    const complaints = watch(page, new URL(address));
    await use(new Console(page, address));
    expect(await refusedByPolicy(page)).toEqual([]);
    expect(complaints).toEqual([]);
  },
});

export { expect };

/** Returns the rows of the list of executions that have an id. */
export function executionRow(page: Page, id: string) {
  return page.getByRole("table", { name: "Executions" }).getByRole("row").filter({ hasText: id });
}

/** The console in a browser. A view with more than a few steps has a class of its own. */
export class Console {
  readonly graphiql: Graphiql;
  readonly events: EventsPage;

  constructor(
    readonly page: Page,
    readonly url: string,
  ) {
    this.graphiql = new Graphiql(page, url);
    this.events = new EventsPage(page, url);
  }

  /** Opens an address and waits for the title of its view. */
  async open(path: string, title: string): Promise<void> {
    await this.page.goto(this.url + path);
    await expect(this.title).toHaveText(title);
  }

  get title() {
    return this.page.getByRole("heading", { level: 1 });
  }

  get connection() {
    return this.page.getByRole("status", { name: "Live connection" });
  }

  /** Opens the command palette and types into it. */
  async search(text: string): Promise<void> {
    await this.page.keyboard.press("ControlOrMeta+K");
    await this.page.getByRole("textbox", { name: "Go to a view, an id, a label or a path" }).fill(text);
  }
}

function watch(page: Page, { host, pathname }: URL): string[] {
  const complaints: string[] = [];
  const visit = (kind: string, address: string) => {
    const url = new URL(address);
    const own = url.host === host && url.pathname.startsWith(pathname);
    if (!["data:", "blob:"].includes(url.protocol) && !own) {
      complaints.push(`${kind} to another host or path: ${address}`);
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

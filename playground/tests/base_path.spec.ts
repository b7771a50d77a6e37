/** The console behind proxies that serve it below a path prefix. Some strip the prefix from the paths, others do not. */

import { execute } from "./api";
import { expect, test } from "./console";
import { startControlPlane, type ControlPlane } from "./control_plane";
import { PREFIX, PrefixProxy, type ProxyKind } from "./prefix_proxy";

interface Case {
  kind: ProxyKind;
  strips: boolean;
  /** Whether the server has the setting NOETL_BASE_PATH. It needs none if the proxy strips the prefix. */
  isConfigured: boolean;
}

const CASES: Case[] = [
  { kind: "nginx", strips: true, isConfigured: false },
  { kind: "nginx", strips: true, isConfigured: true },
  { kind: "nginx", strips: false, isConfigured: true },
  { kind: "haproxy", strips: true, isConfigured: true },
  { kind: "haproxy", strips: false, isConfigured: true },
];
const PATH = "samples/orders/process";

let configured: ControlPlane;

test.beforeAll(async () => {
  configured = await startControlPlane({ NOETL_BASE_PATH: PREFIX });
});

test.afterAll(async () => {
  await configured?.stop();
});

for (const { kind, strips, isConfigured } of CASES) {
  test.describe(`${kind} that ${strips ? "strips" : "keeps"} the prefix, ${isConfigured ? "with" : "without"} the setting`, () => {
    test.use({
      address: async ({ controlPlane }, use) => {
        const server = isConfigured ? configured.url : controlPlane.url;
        const proxy = await PrefixProxy.start(kind, { server, strips });
        await use(proxy.url);
        await proxy.stop();
      },
    });

    test("views, deep links, live lists and GraphiQL work below the prefix", async ({ console, page }) => {
      const view = (name: string) => page.getByRole("navigation", { name: "Views" }).getByRole("link", { name, exact: true });
      await console.open("/", "Overview");
      await view("Executions").click();
      await expect(console.title).toHaveText("Executions");
      await expect(page.getByRole("status", { name: "List" })).toHaveText("Live");
      const id = await execute(console.url);
      await page.getByRole("table", { name: "Executions" }).getByRole("link", { name: id }).click();
      await expect(console.title).toHaveText(PATH);

      await page.reload();
      await expect(console.title).toHaveText(PATH);
      expect(new URL(page.url()).pathname).toBe(`${PREFIX}/executions/${id}`);
      await console.open(`/catalog/${PATH}`, PATH);

      await view("Events").click();
      await console.events.following();
      const later = await execute(console.url);
      await expect(console.events.rowsOf(later).first()).toBeVisible();

      await view("GraphiQL").click();
      await console.graphiql.ready();
      await console.graphiql.tab("Overview").click();
      await console.graphiql.run();
      await console.graphiql.expectAnswer(later);

      expect(await firstEvent(`${console.url}/graphql/stream`)).toContain("systemStatus");
    });
  });
}

/** Returns the first item of a live subscription over server-sent events. */
async function firstEvent(stream: string): Promise<string> {
  const query = encodeURIComponent("subscription { systemStatus { __typename } }");
  const response = await fetch(`${stream}?query=${query}`, { headers: { accept: "text/event-stream" } });
  let text = "";
  for await (const part of response.body ?? []) {
    text += Buffer.from(part).toString();
    if (text.includes("__typename")) {
      break;
    }
  }
  return text;
}

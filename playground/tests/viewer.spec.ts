import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, type Page } from "@playwright/test";

import { execute, INBOX } from "./api";
import { Console } from "./console";
import { BINARY, startControlPlane, type ControlPlane } from "./control_plane";
import { deadLetters } from "./dead_letters";
import { everyMutation } from "./every_mutation";
import { activeInbox } from "./inbox";

let controlPlane: ControlPlane;
let viewer: string;
let worker: string;
let operator: string;

test.beforeAll(async () => {
  const tokens = join(mkdtempSync(join(tmpdir(), "noetl-tokens-")), "tokens");
  writeFileSync(tokens, "");
  const newToken = (role: string) =>
    execFileSync(BINARY, ["token", "new", "--role", role, "--file", tokens], { encoding: "utf8" }).trim();
  [viewer, worker, operator] = [newToken("viewer"), newToken("worker"), newToken("operator")];
  controlPlane = await startControlPlane({ NOETL_AUTH_TOKENS: tokens });
});

test.afterAll(async () => {
  await controlPlane?.stop();
});

/** The views with actions, and the names of their actions. */
const VIEWS: { name: string; actions: string[]; open: () => Promise<{ path: string; title: string }> }[] = [
  {
    name: "subscriptions",
    actions: ["Register a subscription", "Change all in the list", "Pause"],
    open: async () => {
      await activeInbox(controlPlane.url, operator);
      return { path: "/subscriptions", title: "Subscriptions" };
    },
  },
  {
    name: "a subscription",
    actions: ["Pause", "Drain", "Deactivate"],
    open: async () => ({ path: `/subscriptions/${await activeInbox(controlPlane.url, operator)}`, title: INBOX }),
  },
  {
    name: "executions",
    actions: ["Rerun filtered…", "Cancel filtered…", "Rerun selected…", "Cancel selected…"],
    open: async () => {
      await execute(controlPlane.url, worker);
      return { path: "/executions", title: "Executions" };
    },
  },
  {
    name: "an execution",
    actions: ["Cancel…", "Rerun…"],
    open: async () => ({
      path: `/executions/${await execute(controlPlane.url, worker)}`,
      title: "samples/orders/process",
    }),
  },
  {
    name: "execute",
    actions: ["Execute"],
    open: async () => ({ path: "/execute?path=samples/orders/process", title: "Execute" }),
  },
  {
    name: "outbox",
    actions: ["Retry all in the list…", "Discard all in the list…", "Retry", "Discard"],
    open: async () => {
      await deadLetters(controlPlane.url, 1, "The broker refused the message", worker);
      return { path: "/outbox?statuses=DEAD", title: "Outbox" };
    },
  },
  {
    name: "catalog",
    actions: ["Register an entry"],
    open: async () => ({ path: "/catalog", title: "Catalog" }),
  },
  {
    name: "a catalog entry",
    actions: ["Execute", "Register a version"],
    open: async () => ({ path: "/catalog/samples/orders/process", title: "samples/orders/process" }),
  },
];

test("a viewer is offered no mutation", async ({ page }) => {
  const console = new Console(page, controlPlane.url);
  const mutations = watchMutations(page);
  await page.goto(controlPlane.url);
  await signIn(page);
  for (const { name, actions, open } of VIEWS) {
    await test.step(name, async () => {
      const { path, title } = await open();
      await console.open(path, title);
      for (const action of actions) {
        const button = page.getByRole("button", { name: action, exact: true }).first();
        await expect(button, action).toHaveAttribute("aria-disabled", "true");
        await expect(button, action).toHaveAccessibleDescription(/^Your role VIEWER does not include the capability /);
        await button.click({ force: true });
      }
      await expect(page.getByRole("dialog")).toHaveCount(0);
      expect(mutations).toEqual([]);
    });
  }
  // The last view has actions with different capabilities.
  for (const [name, capability] of [["Execute", "EXECUTE"], ["Register a version", "CATALOG"]] as const) {
    const reason = `Your role VIEWER does not include the capability ${capability}.`;
    await expect(page.getByRole("button", { name, exact: true }).first()).toHaveAccessibleDescription(reason);
  }
});

test("the server accepts no mutation of a viewer", async () => {
  const mutations = everyMutation();
  expect(mutations.length).toBeGreaterThan(20);
  for (const { name, document, variables } of mutations) {
    const { data, errors } = await post(document, variables);
    expect(data?.[name] ?? null, name).toBeNull();
    expect(errors?.map(({ extensions }) => extensions.code), name).toEqual(["FORBIDDEN"]);
  }
});

async function signIn(page: Page): Promise<void> {
  const dialog = page.getByRole("dialog", { name: "Sign in" });
  await dialog.getByLabel("Token", { exact: true }).fill(viewer);
  await page.keyboard.press("Enter");
  await expect(dialog).toBeHidden();
}

/** Returns a list that grows with each mutation that the page sends. */
function watchMutations(page: Page): string[] {
  const mutations: string[] = [];
  page.on("request", (request) => {
    const body = request.postData() ?? "";
    if (/"query":"\s*mutation\b/.test(body)) {
      mutations.push(body);
    }
  });
  return mutations;
}

interface Answer {
  data?: Record<string, unknown> | null;
  errors?: { extensions: { code: string } }[];
}

async function post(query: string, variables: object): Promise<Answer> {
  const response = await fetch(`${controlPlane.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${viewer}` },
    body: JSON.stringify({ query, variables }),
  });
  return (await response.json()) as Answer;
}

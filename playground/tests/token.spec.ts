import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "@playwright/test";

import { BINARY, startControlPlane, type ControlPlane } from "./control_plane";
import { Playground } from "./playground";

let controlPlane: ControlPlane;
let token: string;

test.beforeAll(async () => {
  test.setTimeout(180_000);
  const tokens = join(mkdtempSync(join(tmpdir(), "noetl-tokens-")), "tokens");
  writeFileSync(tokens, "");
  token = execFileSync(BINARY, ["token", "new", "--role", "operator", "--file", tokens], { encoding: "utf8" }).trim();
  controlPlane = await startControlPlane({ NOETL_AUTH_TOKENS: tokens });
});

test.afterAll(async () => {
  await controlPlane?.stop();
});

test("the user's token is sent to a server that requires one", async ({ page }) => {
  const playground = new Playground(page, controlPlane.url);
  await page.goto(controlPlane.url);
  const input = page.getByLabel("This server requires a token.");
  await input.fill("noetl_of-another-server");
  await input.press("Enter");

  // The token is refused, so the dialog opens again.
  await expect(input).toHaveValue("");
  await input.fill(token);
  await page.getByRole("button", { name: "Use it" }).click();
  await expect(input).toBeHidden();
  await playground.tab("Overview").click();
  await playground.run();
  await expect(page.locator(".result-window")).toContainText("shards");

  // The socket sends the token too, and a reload of the tab keeps it.
  const accepted = page.waitForEvent("websocket").then(async (socket) => {
    await socket.waitForEvent("framereceived", { predicate: ({ payload }) => String(payload).includes('"next"') });
    return socket.url();
  });
  await page.reload();
  expect(await accepted).not.toContain(token);
  await expect(page.getByLabel("This server requires a token.")).toBeHidden();
});

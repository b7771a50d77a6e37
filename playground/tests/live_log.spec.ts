import type { WebSocketRoute } from "@playwright/test";

import { execute } from "./api";
import { expect, test } from "./playground";

test("the live log shows a committed event, and its details on request", async ({ playground }) => {
  await playground.open();
  const { liveLog } = playground;
  await liveLog.following();
  const execution = await execute(playground.url);
  const row = liveLog.rowsOf(execution);
  await expect(row).toHaveCount(1);
  await expect(row).toContainText("playbook_started");

  await row.getByRole("button", { expanded: false }).click();
  await expect(row).toContainText('"catalogId"');
  await liveLog.clear();
  await expect(liveLog.rows).toHaveCount(0);
});

test("a paused log shows missed events once after it resumes", async ({ playground }) => {
  await playground.open();
  const { liveLog } = playground;
  await liveLog.following();
  const before = await execute(playground.url);
  await expect(liveLog.rowsOf(before)).toHaveCount(1);
  await liveLog.pause();
  await expect(liveLog.status).toHaveText("Paused");

  const missed = await execute(playground.url);
  await liveLog.resume();
  await expect(liveLog.rowsOf(missed)).toHaveCount(1);
  const after = await execute(playground.url);
  await expect(liveLog.rowsOf(after)).toHaveCount(1);
  await expect(liveLog.rowsOf(missed)).toHaveCount(1);
  await expect(liveLog.rowsOf(before)).toHaveCount(1);
});

test("after a lost connection, no event is missing or repeated", async ({ playground, page }) => {
  let reachable = true;
  let socket: WebSocketRoute | undefined;
  await page.routeWebSocket(/\/graphql$/, (route) => {
    if (!reachable) {
      void route.close({ code: 1012, reason: "restarting" });
      return;
    }
    socket = route;
    route.connectToServer();
  });
  await playground.open();
  const { liveLog } = playground;
  await liveLog.following();
  const before = await execute(playground.url);
  await expect(liveLog.rowsOf(before)).toHaveCount(1);

  reachable = false;
  await socket?.close({ code: 1012, reason: "restarting" });
  await expect(liveLog.status).toHaveText("Connecting…");
  const missed = await execute(playground.url);
  reachable = true;
  await expect(liveLog.rowsOf(missed)).toHaveCount(1);
  await expect(liveLog.status).toHaveText("Live");
  await expect(liveLog.rowsOf(before)).toHaveCount(1);
});

test("the server filters events by type", async ({ playground, page }) => {
  await playground.open();
  const { liveLog } = playground;
  await liveLog.following();
  await liveLog.panel.getByLabel("Event types").fill("playbook_*");
  await page.keyboard.press("Enter");
  await liveLog.following();
  const shown = await execute(playground.url);
  await expect(liveLog.rowsOf(shown)).toHaveCount(1);

  await liveLog.panel.getByLabel("Event types").fill("subscription.*");
  await page.keyboard.press("Enter");
  await expect(liveLog.rows).toHaveCount(0);
  await liveLog.following();
  const hidden = await execute(playground.url);
  await liveLog.panel.getByLabel("Event types").fill("");
  await page.keyboard.press("Enter");
  await liveLog.panel.getByLabel("Start of the log").selectOption("beginning");
  await expect(liveLog.rowsOf(hidden)).toHaveCount(1);
});

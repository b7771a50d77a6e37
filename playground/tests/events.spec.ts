import type { WebSocketRoute } from "@playwright/test";

import { execute, graphql } from "./api";
import { expect, test } from "./console";

const LOG = `
  query ($id: ID!) {
    events(executionId: $id, last: 100) { nodes { eventId } }
  }
`;

test("a committed event appears, and its details open in a place of their own", async ({ console, page }) => {
  await console.events.open();
  const execution = await execute(console.url);
  const row = console.events.rowsOf(execution);
  await expect(row).toHaveCount(1);
  await expect(row).toContainText("playbook_started");

  await row.click();
  const details = page.getByRole("complementary", { name: "Event" });
  await expect(details.getByRole("link", { name: execution })).toBeVisible();
  await expect(details.getByRole("button", { name: "Copy cursor" })).toBeVisible();
  await page.reload();
  await expect(details.getByRole("link", { name: execution })).toBeVisible();
});

test("a paused list counts the waiting events, shows them after it resumes, and the search only the rows with its text", async ({ console, page }) => {
  await console.events.open();
  const before = await execute(console.url);
  await expect(console.events.rowsOf(before)).toHaveCount(1);
  await page.getByRole("button", { name: "Pause" }).click();
  await expect(console.events.state).toHaveText("Paused");

  const missed = await execute(console.url);
  await page.getByRole("button", { name: /^Resume \([1-9]/ }).click();
  await expect(console.events.rowsOf(missed)).toHaveCount(1);
  await expect(console.events.rowsOf(before)).toHaveCount(1);

  await console.events.filter("Find in the list", missed);
  await expect(console.events.rowsOf(before)).toHaveCount(0);
  await expect(console.events.rowsOf(missed)).toHaveCount(1);
});

test("after a lost connection, the list equals the log", async ({ console, page }) => {
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
  await console.events.open();
  const before = await execute(console.url);
  await expect(console.events.rowsOf(before)).toHaveCount(1);

  reachable = false;
  await socket?.close({ code: 1012, reason: "restarting" });
  await expect(console.connection).toHaveText("Reconnecting…");
  await expect(console.events.state).toHaveText("Reconnecting…");
  const missed = await execute(console.url);
  reachable = true;
  await expect(console.events.rowsOf(missed)).toHaveCount(1);
  await expect(console.events.state).toHaveText("Live");
  await expect(console.events.list.getByText("The connection was lost.")).toHaveCount(1);
  for (const execution of [before, missed]) {
    const { events } = await graphql<{ events: { nodes: unknown[] } }>(console.url, LOG, { id: execution });
    await expect(console.events.rowsOf(execution)).toHaveCount(events.nodes.length);
  }
});

test("the server filters the events, and the filter is in the address", async ({ console, page }) => {
  await console.events.open();
  await console.events.filter("Types", "playbook_*");
  await expect(page).toHaveURL(/types=playbook_/);
  await console.events.following();
  const shown = await execute(console.url);
  await expect(console.events.rowsOf(shown)).toHaveCount(1);

  await console.events.filter("Types", "subscription.*");
  await console.events.following();
  const hidden = await execute(console.url);
  await expect(console.events.rowsOf(hidden)).toHaveCount(0);
  await console.events.open(`?executions=${hidden}&from=beginning`);
  await expect(console.events.rowsOf(hidden).first()).toBeVisible();
});

test("the list starts at a chosen time, or after a chosen cursor", async ({ console, page }) => {
  const before = await execute(console.url);
  await console.events.open(`?executions=${before}&from=2026-01-01T00:00:00Z`);
  await console.events.rowsOf(before).first().click();
  await page.getByRole("button", { name: "Copy cursor" }).click();
  const cursor = await page.evaluate(() => navigator.clipboard.readText());

  await console.events.open(`?executions=${before}`);
  await page.getByRole("combobox", { name: "Start" }).click();
  await page.getByRole("option", { name: "At a time" }).click();
  await page.getByLabel("Start time").fill("2026-01-01T00:00:00");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/from=202[56]-/);
  await expect(console.events.rowsOf(before).filter({ hasText: "playbook_started" })).toHaveCount(1);

  await page.getByRole("combobox", { name: "Start" }).click();
  await page.getByRole("option", { name: "After a cursor" }).click();
  await console.events.filter("Start cursor", cursor);
  await expect(page).toHaveURL(/from=cursor%3A/);
  await console.events.following();
  await expect(console.events.rowsOf(before).filter({ hasText: "playbook_started" })).toHaveCount(0);
});

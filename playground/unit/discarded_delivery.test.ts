import { expect, test } from "vitest";

import { discardOf } from "../src/views/execution/discarded_delivery";

const STARTED = { type: "playbook_started", eventId: "1" };
const RETRIED = { type: "outbox.retried", eventId: "2" };
const DISCARDED = { type: "outbox.discarded", eventId: "3" };
const DISCARDED_AGAIN = { type: "outbox.discarded", eventId: "4" };

test.each([
  ["pending, discarded", "PENDING", [STARTED, RETRIED, DISCARDED], DISCARDED],
  ["pending, several entries discarded", "PENDING", [STARTED, DISCARDED, DISCARDED_AGAIN], DISCARDED_AGAIN],
  ["pending, retried", "PENDING", [STARTED, RETRIED], null],
  ["pending, log not read yet", "PENDING", [], null],
  ["a worker began it all the same", "RUNNING", [STARTED, DISCARDED], null],
  ["cancelled after the discard", "CANCELLED", [STARTED, DISCARDED], null],
] as const)("only a pending execution waits for a discarded delivery: %s", (_, status, events, discard) => {
  expect(discardOf(status, events)).toBe(discard);
});

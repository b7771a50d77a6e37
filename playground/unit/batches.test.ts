import { expect, test } from "vitest";

import { ApiError } from "../src/api/errors";
import { inBatches, listAll } from "../src/ui/batches";
import { changedBy } from "../src/views/subscriptions/filter";

const IDS = Array.from({ length: 2_500 }, (_, index) => String(index));
const LISTED = { ids: IDS, unavailableShards: [1] };

/** Returns a request whose progress is kept, and the controller that stops it. */
function requestOf(dryRun: boolean) {
  const [progress, stop] = [[] as string[], new AbortController()];
  return { progress, stop, request: { dryRun, reason: null, report: (text: string) => void progress.push(text), signal: stop.signal } };
}

/** Returns an action that changes all objects of a batch. The batch with this number, counted from 0, fails. */
function actionOf(failing?: number) {
  const sizes: number[] = [];
  const carryOut = async (ids: string[]) => {
    sizes.push(ids.length);
    if (sizes.length - 1 === failing) {
      throw new ApiError("TIMEOUT", "The request took too long.");
    }
    const items = ids.map((id) => ({ id, name: id, applied: true, result: "Paused" }));
    return { items, unavailableShards: [0], userErrors: [{ message: "late" }] };
  };
  return { sizes, batches: { noun: "subscription", size: 1_000, carryOut } };
}

test("an action on 2,500 objects is carried out in batches, with progress and one result", async () => {
  const { request, progress } = requestOf(false);
  const { sizes, batches } = actionOf();
  const { total, outcomes } = await inBatches(LISTED, batches, request);
  expect(sizes).toEqual([1_000, 1_000, 500]);
  expect(progress).toEqual(["0", "1,000", "2,000"].map((done) => `${done} of 2,500 subscriptions`));
  expect(total.items.map(({ id }) => id)).toEqual(IDS);
  expect(total).toMatchObject({ open: 0, unavailableShards: [1, 0], userErrors: [{ message: "late" }] });
  expect([outcomes.length, total.error]).toEqual([3, undefined]);
});

test("a batch that fails leaves the results of those before, but not in a dry run, and a stop sends no further batch", async () => {
  const failed = await inBatches(LISTED, actionOf(1).batches, requestOf(false).request);
  expect(failed.total).toMatchObject({ open: 1_500, error: { code: "TIMEOUT" } });
  expect(failed.total.items).toHaveLength(1_000);
  await expect(inBatches(LISTED, actionOf(0).batches, requestOf(false).request)).rejects.toThrow("too long");
  await expect(inBatches(LISTED, actionOf(1).batches, requestOf(true).request)).rejects.toThrow("too long");

  const { request, stop } = requestOf(false);
  const { sizes, batches } = actionOf();
  const stopping = { ...batches, carryOut: (ids: string[]) => batches.carryOut(ids).finally(() => stop.abort()) };
  expect((await inBatches(LISTED, stopping, request)).total.open).toBe(1_500);
  expect(sizes).toEqual([1_000]);
});

test("all pages are listed, with their unavailable shards, and more than 10,000 objects are refused", async () => {
  const pageOf = (last: number) => async (after: string | null) => {
    const number = Number(after);
    const nodes = IDS.slice(0, 100).map((id) => ({ id: `${number}-${id}` }));
    return { nodes, pageInfo: { hasNextPage: number < last, endCursor: String(number + 1) }, unavailableShards: [number % 2] };
  };
  const { request, progress } = requestOf(true);
  const { ids, unavailableShards } = await listAll("subscription", pageOf(11), request);
  expect([ids.length, ids[0], ids.at(-1), unavailableShards]).toEqual([1_200, "0-0", "11-99", [0, 1]]);
  expect(progress.at(-1)).toBe("1,200 subscriptions found");
  expect((await listAll("subscription", pageOf(99), request)).ids).toHaveLength(10_000);
  await expect(listAll("subscription", pageOf(100), request)).rejects.toMatchObject({ code: "LIMIT_EXCEEDED" });
});

test("an action on a list of all states leaves out deactivated subscriptions, unless they are chosen", () => {
  const statuses = ["ACTIVE", "PAUSED", "DRAINING", "REGISTERED"];
  expect(changedBy(null)).toEqual({ statuses });
  expect(changedBy({ pathPrefix: "a/" })).toEqual({ statuses, pathPrefix: "a/" });
  expect(changedBy({ statuses: ["DEACTIVATED"] })).toEqual({ statuses: ["DEACTIVATED"] });
});

import { expect, test } from "vitest";

import { differencesOf } from "../src/views/execution/json_difference";

const CASES: [name: string, left: unknown, right: unknown, differences: [place: string, left: unknown, right: unknown][]][] = [
  ["equal documents, in another order", { a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }, []],
  ["a changed leaf", { order: { items: [{ sku: "a" }, { sku: "b" }] } }, { order: { items: [{ sku: "a" }, { sku: "c" }] } }, [["order.items[1].sku", "b", "c"]]],
  ["leaves of one document", { a: 1 }, { b: null }, [["a", 1, undefined], ["b", undefined, null]]],
  ["another type", { a: "1" }, { a: 1 }, [["a", "1", 1]]],
  ["a longer list", { a: [1] }, { a: [1, 2] }, [["a[1]", undefined, 2]]],
  ["an empty list that is filled", { a: [] }, { a: [1] }, [["a[0]", undefined, 1]]],
  ["an empty list and an empty map", { a: [] }, { a: {} }, [["a", [], {}]]],
  ["a value without parts", "text", 2, [["(whole value)", "text", 2]]],
  ["no document", null, { a: 1 }, [["a", undefined, 1]]],
  ["no documents", null, undefined, []],
];

test.each(CASES)("differences of %s", (_, left, right, differences) => {
  expect(differencesOf(left, right).map((one) => [one.place, one.left, one.right])).toEqual(differences);
});

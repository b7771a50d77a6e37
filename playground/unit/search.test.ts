import { expect, test } from "vitest";

import { parseSearch, searchOf, stringifySearch } from "../src/app/search";
import { labelConditions, labelText, readLabels } from "../src/ui/labels";

test("an address keeps the named texts, and ids stay texts", () => {
  const query = "?id=9007199254740993&path=a%2Fb&empty=&other=1";
  const search = searchOf("id", "path", "empty")(parseSearch(query));
  expect(search).toEqual({ id: "9007199254740993", path: "a/b" });
  expect(stringifySearch({ ...search, at: undefined })).toBe("?id=9007199254740993&path=a%2Fb");
  expect(stringifySearch({})).toBe("");
});

test.each([
  ["order_id=17, team", [{ name: "order_id", value: "17" }, { name: "team" }]],
  ["a = 1 b=2", [{ name: "a", value: "1" }, { name: "b", value: "2" }]],
  ['note="a, b" x=1', [{ name: "note", value: "a, b" }, { name: "x", value: "1" }]],
  ['note="say \\"hi\\""', [{ name: "note", value: 'say "hi"' }]],
  ["a=", [{ name: "a", value: "" }]],
  ["url=http://x?a=b", [{ name: "url", value: "http://x?a=b" }]],
  [" , ", []],
])("labels of the text %j", (text, labels) => {
  expect(readLabels(text)).toEqual(labels);
});

test.each(["17", "a, b", 'say "hi"', "", "a=b", "ü 🙂"])("the value %j of a label is read as it was written", (value) => {
  expect(readLabels(labelText({ name: "note", value }))).toEqual([{ name: "note", value }]);
});

test("a malformed text is a condition that the server refuses, never none", () => {
  expect(labelConditions("order_id=17, team")).toEqual([{ name: "order_id", equals: "17" }, { name: "team", exists: true }]);
  expect(labelConditions(",")).toEqual([{ name: ",", exists: true }]);
});

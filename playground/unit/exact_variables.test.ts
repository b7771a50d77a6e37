import { expect, test } from "vitest";

import { parseVariables } from "../src/views/graphiql/exact_variables";

test.each([
  [`{ "a": 1, // "b": 2,\n "c": [1, 2, /* 3 */ ], }`, { a: 1, c: [1, 2] }],
  [String.raw`{ "url": "http://x/*no*/", "quote": "\"// ,}", "comma": ",]" }`, { url: "http://x/*no*/", quote: '"// ,}', comma: ",]" }],
])("variables can have comments and commas before closing brackets: %s", (text, expected) => {
  expect(parseVariables(text)).toEqual(expected);
});

test("an unreadable text is refused", () => {
  expect(() => parseVariables(`{ "a": }`)).toThrow(SyntaxError);
});

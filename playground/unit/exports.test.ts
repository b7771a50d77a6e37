import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

import { csvLine, valueOf } from "../src/ui/csv";
import { curlOf } from "../src/ui/curl";

test("cells of CSV are quoted as RFC 4180 says, and no spreadsheet reads a text as a formula", () => {
  const cases: [unknown, string][] = [
    ["plain", "plain"],
    [null, ""],
    [undefined, ""],
    [-1.5, "-1.5"],
    [false, "false"],
    ['a "b", c', '"a ""b"", c"'],
    ["two\nlines", '"two\nlines"'],
    [" spaces ", " spaces "],
    ["=1+1", "'=1+1"],
    ["+1", "'+1"],
    ["-1", "'-1"],
    ["@sum(a1)", "'@sum(a1)"],
    ["\t=1", "'\t=1"],
    ['=link("a")', '"\'=link(""a"")"'],
    ["a=1", "a=1"],
    [[{ name: "order", value: "17" }], '"[{""name"":""order"",""value"":""17""}]"'],
  ];
  for (const [value, written] of cases) {
    expect(csvLine([value, "end"])).toBe(`${written},end\r\n`);
  }
  const row = { id: "1", parent: { execution: null, subscription: { id: "2" } } };
  const fields = ["id", "parent.execution.id", "parent.subscription.id"];
  expect(csvLine(fields.map((field) => valueOf(row, field)))).toBe("1,,2\r\n");
});

test("a request as curl has a placeholder for the token, and the shell changes no other part", () => {
  const document = "\n query Q($path: String) { a(path: $path) }";
  const variables = { path: `it's "$HOME" \`id\` \\n` };
  const command = curlOf("http://host/it's", document, variables);
  const shell = `curl() { for part in "$@"; do printf '%s\\0' "$part"; done; }\n${command}`;
  const env = { ...process.env, TOKEN: "of-the-user" };
  const parts = execFileSync("sh", ["-c", shell], { env, encoding: "utf8" }).split("\0");
  expect([parts[0], parts[2], parts[4]]).toEqual([
    "http://host/it's",
    "content-type: application/json",
    "authorization: Bearer of-the-user",
  ]);
  expect(JSON.parse(parts[6] ?? "")).toEqual({ query: document.trim(), variables });
});

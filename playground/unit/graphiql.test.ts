import { expect, test } from "vitest";

import { parseSearch } from "../src/app/search";
import { linkTo } from "../src/views/graphiql/share_link";
import { storageWithoutHeaders } from "../src/views/graphiql/storage";

const ADDRESS = "https://noetl.example/graphiql";

test.each([
  ["query A($id: ID!) { execution(id: $id) { id } }", '{ "id": "9007199254740993" }'],
  ["# a comment & more? 100%\n{ __typename }", '// ü 🙂 "+" \\n\n{}'],
  ["{ __typename }", ""],
])("a link opens the query %j with the variables %j", (query, variables) => {
  const shared = linkTo(ADDRESS, query, variables);
  const link = new URL("link" in shared ? shared.link : "");
  expect(parseSearch(link.search)).toEqual({ query, ...(variables && { variables }) });
});

test.each([
  [" \n", '{ "id": "1" }', "There is no query to share."],
  ["{ __typename }", "x".repeat(8_000), "The query and its variables are too long for a link."],
  ["ü".repeat(1_400), "", "The query and its variables are too long for a link."],
])("there is no link to a query without content or beyond the limit", (query, variables, refusal) => {
  expect(linkTo(ADDRESS, query, variables)).toEqual({ refusal });
});

test("the browser keeps GraphiQL's operations without their headers, and clearing them leaves the console's data", () => {
  const items = new Map([["noetl.saved-views", "{}"]]);
  const storage = storageWithoutHeaders({
    get length() {
      return items.size;
    },
    key: (index: number) => [...items.keys()][index] ?? null,
    setItem: (key: string, value: string) => void items.set(key, value),
    removeItem: (key: string) => void items.delete(key),
  } as unknown as Storage);
  const operation = { query: "{ __typename }", variables: '{ "headers": "kept" }', operationName: "A" };
  const headers = '{ "Authorization": "Bearer noetl_a" }';
  storage.setItem("graphiql:queries", JSON.stringify({ queries: [{ ...operation, headers }] }));
  storage.setItem("graphiql:favorites", JSON.stringify({ favorites: [{ ...operation, headers, favorite: true }] }));
  storage.setItem("graphiql:tabState", '{"tabs":[{"headers":null}]}');
  expect(JSON.parse(items.get("graphiql:queries") ?? "")).toEqual({ queries: [operation] });
  expect(JSON.parse(items.get("graphiql:favorites") ?? "")).toEqual({ favorites: [{ ...operation, favorite: true }] });
  // GraphiQL refuses stored tabs without the field, and leaves it empty itself.
  expect(items.get("graphiql:tabState")).toBe('{"tabs":[{"headers":null}]}');
  expect(storage.length).toBe(3);

  storage.clear();
  expect([...items.keys()]).toEqual(["noetl.saved-views"]);
});

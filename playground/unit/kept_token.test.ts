import { expect, test } from "vitest";

import { KeptToken } from "../src/api/kept_token";

test("a token is kept for the tab until a sign-out in any tab, and only for the server at its path", () => {
  const browser = storage();
  const [first, second] = [storage(), storage()];
  const tab = (ofTab: Storage, path = "/noetl") => new KeptToken(path, ofTab, browser);
  tab(first).keep("noetl_a b");
  tab(second).keep("noetl_c");
  tab(second, "/other").keep("noetl_d");
  expect([tab(first).read(), tab(second).read()]).toEqual(["noetl_a b", "noetl_c"]);

  tab(first).countSignOut();
  expect([tab(first).read(), tab(second).read(), tab(second, "/other").read()]).toEqual([null, null, "noetl_d"]);
  tab(first).keep("noetl_e");
  expect([tab(first).read(), tab(second).read()]).toEqual(["noetl_e", null]);
  tab(first).forget();
  expect(tab(first).read()).toBeNull();
});

function storage(): Storage {
  const items = new Map<string, string>();
  const kept = {
    getItem: (key: string) => items.get(key) ?? null,
    setItem: (key: string, value: string) => void items.set(key, value),
    removeItem: (key: string) => void items.delete(key),
  };
  return kept as unknown as Storage;
}

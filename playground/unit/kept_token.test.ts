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
  expect([first.length, second.length]).toEqual([0, 1]);
  tab(first).keep("noetl_e");
  expect([tab(first).read(), tab(second).read()]).toEqual(["noetl_e", null]);
  tab(first).forget();
  expect(tab(first).read()).toBeNull();
});

test("a sign-out is counted in a full storage, and a token that finds no room is not kept", () => {
  const [browser, ofTab] = [storage(), storage()];
  const kept = new KeptToken("", ofTab, browser);
  kept.keep("noetl_a");
  fill(browser);
  kept.countSignOut();
  expect([kept.session(), kept.read()]).toEqual([1, null]);

  fill(ofTab);
  kept.keep("noetl_b");
  expect([kept.read(), ofTab.length]).toEqual([null, 0]);
});

const full = new WeakSet<Storage>();

/** Makes a storage refuse what needs more room. */
function fill(filled: Storage): void {
  full.add(filled);
}

function storage(): Storage {
  const items = new Map<string, string>();
  const kept = {
    get length() {
      return items.size;
    },
    getItem: (key: string) => items.get(key) ?? null,
    setItem(key: string, value: string) {
      if (full.has(kept) && (items.get(key)?.length ?? -1) < value.length) {
        throw new DOMException("The storage is full.", "QuotaExceededError");
      }
      items.set(key, value);
    },
    removeItem: (key: string) => void items.delete(key),
  } as unknown as Storage;
  return kept;
}

import { expect, test, vi } from "vitest";

const storage = { getItem: () => null, setItem() {}, removeItem() {} };

test("a refused token that the user wrote in GraphiQL is sent alone, and the user stays signed in", async () => {
  vi.stubGlobal("document", { baseURI: "http://noetl.example/" });
  vi.stubGlobal("window", { sessionStorage: storage, localStorage: storage, addEventListener() {} });
  vi.stubGlobal("BroadcastChannel", class { postMessage() {} });
  const sent: Headers[] = [];
  vi.stubGlobal("fetch", async (_: string, { headers }: { headers: Headers }) => {
    sent.push(headers);
    return new Response('{ "errors": [] }', { status: 401 });
  });
  const { post } = await import("../src/api/client");
  const { closeSignIn, signInState } = await import("../src/api/token");
  closeSignIn("noetl_own");

  expect(await post({ query: "{ a }" }, undefined, { authorization: "Bearer noetl_written" })).toEqual({ errors: [] });
  expect(sent.map((headers) => headers.get("authorization"))).toEqual(["Bearer noetl_written"]);
  expect(signInState()).toMatchObject({ token: "noetl_own", asking: null });
});

import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";

import { sendAgain } from "../src/api/send_again";

test("a query that a change meets during its first read is sent again, once for all changes", async () => {
  const client = new QueryClient();
  let endFirstRead = () => {};
  const firstRead = new Promise<void>((resolve) => (endFirstRead = resolve));
  let stored = "before";
  let requests = 0;
  const queryFn = async () => {
    const value = stored;
    requests += 1;
    await (requests === 1 ? firstRead : undefined);
    return value;
  };
  const observer = new QueryObserver(client, { queryKey: ["entry"], queryFn });
  const stop = observer.subscribe(() => {});
  stored = "after";
  const sent = [sendAgain(client), sendAgain(client, { queryKey: ["entry"] })];
  endFirstRead();
  await Promise.all(sent);
  expect(observer.getCurrentResult().data).toBe("after");
  expect(requests).toBe(2);
  stop();
  client.clear();
});

/**
 * Reads queries again when a live subscription reports a change. The lists keep their pages and their order, and the
 * live subscription needs to say only that something changed. It also sends an item when it begins, even if its list is
 * empty, so what changed while the connection was lost is read too.
 */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { afterChanges } from "./after_changes";
import type { TypedDocument } from "./client";
import { follow } from "./live";
import { sendAgain } from "./send_again";

/** Shortest time between two reads, so that many changes at once cause one. */
const WAIT_MS = 250;

/** Reads the queries with these documents again after each item of a live subscription. */
export function useLiveRefresh<Data, Variables>(
  document: TypedDocument<Data, Variables>,
  variables: Variables,
  queries: readonly { toString(): string }[],
): void {
  const client = useQueryClient();
  const wanted = JSON.stringify([variables, queries.map(String)]);
  useEffect(() => {
    const [current, texts] = JSON.parse(wanted) as [Variables, string[]];
    const { change, stop } = afterChanges(
      () => Promise.all(texts.map((text) => sendAgain(client, { queryKey: [text] }))).then(() => {}),
      WAIT_MS,
    );
    const end = follow(document, () => current, { next: change, state: () => {} });
    return () => {
      stop();
      end();
    };
  }, [client, document, wanted]);
}

import { graphql } from "./api";

/** A dead letter: the id of its entry, and the execution that it belongs to. */
export interface DeadLetter {
  id: string;
  executionId: string;
}

interface Claim {
  entryId: string;
  executionId: string;
  lease: string;
}

const EXECUTE = `mutation ($requests: [ExecuteInput!]!) { executeBatch(input: { requests: $requests }) { results { index } } }`;
const CLAIM = `mutation {
  claimOutbox(input: { select: { all: true }, maxAttempts: 1, leaseSeconds: 3600 }) { claims { entryId executionId lease } }
}`;
const FAIL = `mutation ($failures: [OutboxFailureInput!]!) { markOutboxFailed(input: { failures: $failures }) { results { dead } } }`;
const BATCH = 20;

/** Makes a number of dead letters. The server's own relay claims entries too, so more are written until enough are claimed here. */
export async function deadLetters(
  url: string,
  count: number,
  error = "The broker refused the message",
  token?: string,
): Promise<DeadLetter[]> {
  const claims: Claim[] = [];
  while (claims.length < count) {
    claims.push(...(await claimWhileWritten(url, token)));
  }
  const failures = claims.map(({ entryId, lease }) => ({ entryId, lease, error }));
  await graphql(url, FAIL, { failures }, token);
  return claims.map(({ entryId, executionId }) => ({ id: `outbox-${entryId}`, executionId }));
}

async function claimWhileWritten(url: string, token: string | undefined): Promise<Claim[]> {
  const requests = Array.from({ length: BATCH }, () => ({ entry: { path: "samples/orders/process" } }));
  let written = false;
  const writing = graphql(url, EXECUTE, { requests }, token).finally(() => (written = true));
  const claims: Claim[] = [];
  async function claimUntilWritten(): Promise<void> {
    do {
      const { claimOutbox } = await graphql<{ claimOutbox: { claims: Claim[] } }>(url, CLAIM, {}, token);
      claims.push(...claimOutbox.claims);
    } while (!written);
  }
  await Promise.all([writing, claimUntilWritten(), claimUntilWritten(), claimUntilWritten()]);
  return claims;
}

/** Discards the dead letters of earlier tests, which the health of the system would name. */
export async function discardDeadLetters(url: string): Promise<void> {
  await graphql(url, `mutation { discardOutbox(input: { select: { filter: { statuses: [DEAD] } } }) { discarded } }`);
}

/** Returns the status of an entry; null if it does not exist. */
export async function statusOfEntry(url: string, id: string): Promise<string | null> {
  const { node } = await graphql<{ node: { status: string } | null }>(
    url,
    `query ($id: ID!) { node(id: $id) { ... on OutboxEntry { status } } }`,
    { id },
  );
  return node?.status ?? null;
}

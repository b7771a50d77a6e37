import { graphql, INBOX } from "./api";

interface Inbox {
  id: string;
  status: string;
}

/** Registers and activates the subscription of the inbox, and returns its id. A drained one is replaced by a new one. */
export async function activeInbox(url: string, token?: string): Promise<string> {
  const found = await register(url, token);
  if (found.status === "DRAINING") {
    await transition(url, "DEACTIVATE", found.id, token);
  }
  const { id } = found.status === "DRAINING" ? await register(url, token) : found;
  await transition(url, "ACTIVATE", id, token);
  return id;
}

async function register(url: string, token: string | undefined): Promise<Inbox> {
  const { registerSubscription } = await graphql<{ registerSubscription: { subscription: Inbox } }>(
    url,
    `mutation ($path: String!) { registerSubscription(input: { path: $path }) { subscription { id status } } }`,
    { path: INBOX },
    token,
  );
  return registerSubscription.subscription;
}

/** Carries out an action on a subscription, as another user. */
export async function transition(url: string, action: string, id: string, token?: string): Promise<void> {
  await graphql(
    url,
    `mutation ($input: TransitionSubscriptionsInput!) { transitionSubscriptions(input: $input) { results { applied } } }`,
    { input: { action, select: { ids: [id] } } },
    token,
  );
}

/** Returns the status of a subscription, and the reason in its newest lifecycle event. */
export async function statusOf(url: string, id: string): Promise<{ status: string; reason: string | undefined }> {
  const { subscription } = await graphql<{
    subscription: { status: string; events: { nodes: { context: { reason?: string } }[] } };
  }>(url, `query ($id: ID!) { subscription(by: { id: $id }) { status events(last: 1) { nodes { context } } } }`, { id });
  return { status: subscription.status, reason: subscription.events.nodes[0]?.context.reason };
}

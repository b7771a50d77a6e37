import { graphql, INBOX } from "./api";

interface Inbox {
  id: string;
  status: string;
}

/** Registers and activates the subscription of the inbox, and returns its id. A drained one is replaced by a new one. */
export async function activeInbox(url: string): Promise<string> {
  const found = await register(url);
  if (found.status === "DRAINING") {
    await transition(url, "DEACTIVATE", found.id);
  }
  const { id } = found.status === "DRAINING" ? await register(url) : found;
  await transition(url, "ACTIVATE", id);
  return id;
}

async function register(url: string): Promise<Inbox> {
  const { registerSubscription } = await graphql<{ registerSubscription: { subscription: Inbox } }>(
    url,
    `mutation ($path: String!) { registerSubscription(input: { path: $path }) { subscription { id status } } }`,
    { path: INBOX },
  );
  return registerSubscription.subscription;
}

/** Carries out an action on a subscription, as another user. */
export async function transition(url: string, action: string, id: string): Promise<void> {
  await graphql(
    url,
    `mutation ($input: TransitionSubscriptionsInput!) { transitionSubscriptions(input: $input) { results { applied } } }`,
    { input: { action, select: { ids: [id] } } },
  );
}

/** Returns the status of a subscription, and the reason in its newest lifecycle event. */
export async function statusOf(url: string, id: string): Promise<{ status: string; reason: string | undefined }> {
  const { subscription } = await graphql<{
    subscription: { status: string; events: { nodes: { context: { reason?: string } }[] } };
  }>(url, `query ($id: ID!) { subscription(by: { id: $id }) { status events(last: 1) { nodes { context } } } }`, { id });
  return { status: subscription.status, reason: subscription.events.nodes[0]?.context.reason };
}

/** Requests that a test sends over the public API, without the page. */

export const INBOX = "samples/orders/inbox";
export const PROCESS = "samples/orders/process";

export async function graphql<T>(url: string, query: string, variables: object = {}, token?: string): Promise<T> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/graphql-response+json",
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({ query, variables }),
  });
  const answer = (await response.json()) as { data?: T; errors?: unknown };
  if (!answer.data || answer.errors) {
    throw new Error(`${query}\n${JSON.stringify(answer.errors)}`);
  }
  return answer.data;
}

/** Starts an execution and returns its id. */
export async function execute(url: string, token?: string): Promise<string> {
  const data = await graphql<{ execute: { execution: { id: string } | null; userErrors: unknown[] } }>(
    url,
    `mutation { execute(input: { entry: { path: "${PROCESS}" } }) { execution { id } userErrors { code message } } }`,
    {},
    token,
  );
  if (!data.execute.execution) {
    throw new Error(`execute: ${JSON.stringify(data.execute.userErrors)}`);
  }
  return data.execute.execution.id;
}

/** Starts an execution of a path that no worker takes, so that its status changes only by the test. Returns its id. */
export async function idle(url: string, path = PROCESS, more: { workload?: object; token?: string } = {}): Promise<string> {
  const { execute: payload } = await graphql<{ execute: { executionId: string } }>(
    url,
    `mutation ($path: String!, $workload: JSON) {
      execute(input: { entry: { path: $path }, executionPool: "no-worker", workload: $workload }) { executionId }
    }`,
    { path, workload: more.workload },
    more.token,
  );
  return payload.executionId;
}

/** Returns the ids of the reruns of an execution. */
export async function reruns(url: string, id: string): Promise<string[]> {
  const { execution } = await graphql<{ execution: { reruns: { nodes: { id: string }[] } } }>(
    url,
    `query ($id: ID!) { execution(id: $id) { reruns(first: 10) { nodes { id } } } }`,
    { id },
  );
  return execution.reruns.nodes.map((rerun) => rerun.id);
}

/** Adds an execution that another server started at a time, and returns its id. */
export async function startedElsewhere(url: string, path: string, createdAt: string): Promise<string> {
  const { reserveEventIds } = await graphql<{ reserveEventIds: { eventIds: [string] } }>(
    url,
    `mutation { reserveEventIds(input: { count: 1 }) { eventIds } }`,
  );
  const [id] = reserveEventIds.eventIds;
  await report(url, id, [{ type: "playbook_started", context: { path }, createdAt }]);
  return id;
}

/** Registers a version of a catalog entry. */
export async function register(url: string, content: string): Promise<void> {
  const { registerCatalogEntry } = await graphql<{ registerCatalogEntry: { userErrors: object[] } }>(
    url,
    `mutation ($content: String!) { registerCatalogEntry(input: { content: $content }) { userErrors { message } } }`,
    { content },
  );
  if (registerCatalogEntry.userErrors.length > 0) {
    throw new Error(`registerCatalogEntry: ${JSON.stringify(registerCatalogEntry.userErrors)}`);
  }
}

/** Registers a version of a playbook with one step, by default of a new path, and returns the path. */
export async function registerPlaybook(url: string, path = `tests/${crypto.randomUUID()}`, name = "test"): Promise<string> {
  const head = `apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: ${name}, path: ${path} }\n`;
  await register(url, `${head}workflow:\n  - step: start\n    tool: { kind: noop }\n`);
  return path;
}

/** Adds events to an execution, as a worker reports them. */
export async function report(url: string, executionId: string, events: object[]): Promise<void> {
  const { reserveEventIds } = await graphql<{ reserveEventIds: { eventIds: string[] } }>(
    url,
    `mutation ($count: Int!) { reserveEventIds(input: { count: $count }) { eventIds } }`,
    { count: events.length },
  );
  const { projectEvents } = await graphql<{ projectEvents: { projected: number } }>(
    url,
    `mutation ($events: [EventInput!]!) { projectEvents(input: { events: $events }) { projected } }`,
    { events: events.map((event, index) => ({ ...event, executionId, eventId: reserveEventIds.eventIds[index] })) },
  );
  if (projectEvents.projected !== events.length) {
    throw new Error(`projectEvents: ${projectEvents.projected} of ${events.length} events`);
  }
}

/** Deactivates the live subscription of the inbox, so that registering creates a new one. */
export async function withoutInbox(url: string): Promise<void> {
  const found = await graphql<{ subscription: { id: string; status: string } | null }>(
    url,
    `query ($path: String!) { subscription(by: { path: $path }) { id status } }`,
    { path: INBOX },
  );
  if (found.subscription && found.subscription.status !== "DEACTIVATED") {
    await graphql(
      url,
      `mutation ($id: ID!) { deactivateSubscription(input: { subscriptionId: $id }) { userErrors { code } } }`,
      { id: found.subscription.id },
    );
  }
}

import { ConnectionHandler, fetchQuery, graphql, requestSubscription } from 'relay-runtime';

export const runsQuery = graphql`
  query runsQuery($filter: ExecutionFilter, $count: Int = 50, $after: String) {
    executions(filter: $filter, first: $count, after: $after) @connection(key: "runs_executions") {
      edges { node { id path status startedAt } }
    }
  }
`;

const runsLive = graphql`
  subscription runsLiveSubscription($filter: ExecutionFilter) {
    executionListUpdates(filter: $filter) {
      kind
      executionId
      execution { id path status startedAt }
    }
  }
`;

/**
 * Keeps the loaded part of the list current until the result is disposed. `variables` are those of the query.
 * `onCurrent` is called each time the query was fetched again, `onError` if a fetch or the live subscription fails.
 */
export function followRuns(environment, variables, onCurrent, onError) {
  const { filter } = variables;
  let items = 0;
  let fetching = false;
  const onCaughtUp = async () => {
    if (fetching) return;
    fetching = true;
    try {
      // A response can be older than an item that arrived before it.
      for (let before; items !== before; ) {
        if (before !== undefined) await new Promise((resolve) => setTimeout(resolve, 1_000));
        before = items;
        await fetchQuery(environment, runsQuery, variables).toPromise();
      }
      onCurrent();
    } catch (error) {
      onError(error);
    } finally {
      fetching = false;
    }
  };
  const onNext = ({ executionListUpdates: { kind } }) => {
    items += 1;
    if (kind === 'CAUGHT_UP') onCaughtUp();
  };
  const updater = (store) => {
    const list = ConnectionHandler.getConnection(store.getRoot(), 'runs_executions', { filter });
    const update = store.getRootField('executionListUpdates');
    const execution = update.getLinkedRecord('execution');
    if (!list) return;
    if (update.getValue('kind') === 'LEFT_FILTER') {
      ConnectionHandler.deleteNode(list, update.getValue('executionId'));
    } else if (execution) {
      insert(store, list, execution);
    }
  };
  return requestSubscription(environment, { subscription: runsLive, variables: { filter }, updater, onNext, onError });
}

/** The list is ordered by `startedAt`, newest first. */
function insert(store, list, execution) {
  const started = (node) => Date.parse(node.getValue('startedAt'));
  const edges = list.getLinkedRecords('edges');
  const nodes = edges.map((edge) => edge.getLinkedRecord('node'));
  if (nodes.includes(execution)) return;
  const older = nodes.findIndex((node) => started(node) < started(execution));
  // It belongs to a page that is not loaded yet.
  if (older < 0 && list.getLinkedRecord('pageInfo').getValue('hasNextPage')) return;
  const edge = ConnectionHandler.createEdge(store, list, execution, 'ExecutionEdge');
  list.setLinkedRecords(edges.toSpliced(older < 0 ? edges.length : older, 0, edge), 'edges');
}

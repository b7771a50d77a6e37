/** Documents and types of the `events` subscription, with the fields that the live log shows. */

export interface LogEvent {
  id: string;
  executionId: string;
  type: string;
  nodeName: string | null;
  status: string | null;
  createdAt: string;
  shard: number;
  error: string | null;
}

export type StreamItem =
  | { __typename: "EventDelivery"; cursor: string; event: LogEvent }
  | { __typename: "CaughtUp"; cursor: string; at: string }
  | { __typename: "StreamGap"; cursor: string; shard: number; from: string; to: string; reason: string }
  | { __typename: "StreamHeartbeat"; cursor: string; at: string; lagEvents: string };

export interface Filter {
  types?: string[];
  executionIds?: string[];
}

export type Start = { latest: true } | { beginning: true } | { after: string };

/** Leaves out context, result and meta, which may be large. A row fetches them when it is opened. */
export const LIVE_LOG = /* GraphQL */ `
  subscription LiveLog($filter: LiveEventFilter, $start: EventStart) {
    events(filter: $filter, start: $start) {
      __typename
      ... on EventDelivery {
        cursor
        event { id: eventId executionId type nodeName status createdAt shard error }
      }
      ... on CaughtUp { cursor at }
      ... on StreamGap { cursor shard from to reason }
      ... on StreamHeartbeat { cursor at lagEvents }
    }
  }
`;

export const EVENT_DETAILS = /* GraphQL */ `
  query EventDetails($executionId: ID!, $id: ID!) {
    event(executionId: $executionId, id: $id) {
      id
      type
      executionId
      parentExecutionId
      catalogId
      nodeId
      nodeName
      nodeType
      status
      durationSeconds
      createdAt
      shard
      error
      context
      result
      meta
    }
  }
`;

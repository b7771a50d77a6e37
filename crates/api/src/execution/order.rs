//! Order of the list of executions.

use async_graphql::Enum;

use noetl_domain::execution_order;

/// Order of the list of executions. Executions with equal values are ordered by id, in the same direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "execution_order::ExecutionOrder")]
pub enum ExecutionOrder {
    /// By `startedAt`, newest first. Executions without `startedAt` are last.
    Newest,
    /// By `startedAt`, oldest first. Executions without `startedAt` are first.
    Oldest,
    /// By `durationSeconds`, longest first. Only executions that have ended are in the list; those without `startedAt` are
    /// last. Of the filter's conditions, `statuses` and `tenantId` are allowed.
    Longest,
    /// By `endedAt`, last first. Only executions that have ended are in the list. Of the filter's conditions, `statuses`,
    /// `tenantId`, `endedAfter` and `endedBefore` are allowed.
    LastEnded,
}

//! Status of an outbox row.

use async_graphql::Enum;

use noetl_domain::outbox::OutboxStatus as Status;

/// Status of an outbox entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "Status")]
pub enum OutboxStatus {
    /// Waiting for its first delivery attempt.
    Pending,
    /// Claimed under a lease.
    InFlight,
    /// Delivered.
    Published,
    /// Not delivered at the last attempt. The entry is claimable again from `availableAt`.
    Failed,
    /// No longer tried: the last of its attempts failed, or its payload can't be delivered. The entry is claimable only
    /// after `retryOutbox`, and no other entry waits for it.
    Dead,
    /// Stored under a name that this server does not know; `statusText` contains the name. The entry is never claimed.
    Unknown,
}

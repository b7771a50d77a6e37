//! The outbox of a shard: messages written in the transaction of the event that they tell of, claimed under a lease,
//! delivered by their claimant, and settled.
//!
//! A row is *claimable* when it is PENDING or FAILED and its `available_at` has passed, or `IN_FLIGHT` and its lease has;
//! the row of a server that knows no leases has one of [`DEFAULT_LEASE_SECONDS`] from `locked_at`. All of it is on the
//! database's clock.
//!
//! A *dead letter* is FAILED with an `available_at` of infinity: it can't be delivered as it is, and is claimed again only
//! after a retry. The other rows of its execution don't wait for it.
//!
//! Each status has partial indexes of its own: PENDING in outbox order, FAILED and `IN_FLIGHT` by the time at which they
//! become claimable, and each by execution. While some transaction stays open, the entries that settled rows leave in
//! them can't be cleaned up, and a reader walks over all of them. [`Marks`] say where the first living entries are, so
//! that what a claim reads does not grow with what was settled since.

mod claim;
mod list;
mod settle;
mod watch;

use chrono::{DateTime, Utc};

pub use claim::{Claim, Claimed, MAX_PAYLOAD_BYTES, claim};
pub use list::{Bounds, OutboxFilter, OutboxRow, list};
pub use settle::{
    Failure, Purged, Ref, bury, mark_failed, mark_published, purge, release, retry, retryable, settled_under,
};
pub use watch::{Backlog, COUNTED, Counts, Sight, backlog, counts, look};

/// The lease of a claim that names none, and of a claim by a server that knows no leases.
pub const DEFAULT_LEASE_SECONDS: i32 = 30;

/// Where reading the open rows begins: below these, all that could be seen at some time was settled or is claimed. They
/// are hints. Ids and times are given out before they are committed, so a row may turn up below a mark; whoever uses
/// marks looks from [`Marks::START`] now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// The first PENDING row.
    pub pending: i64,
    /// When the first FAILED row became claimable.
    pub failed: DateTime<Utc>,
    /// When the first lease ran out.
    pub lease: DateTime<Utc>,
}

impl Marks {
    /// Below every row.
    pub const START: Self = Self { pending: 0, failed: DateTime::UNIX_EPOCH, lease: DateTime::UNIX_EPOCH };
}

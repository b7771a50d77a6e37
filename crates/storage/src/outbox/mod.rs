//! The outbox of a shard: messages that are written in the transaction of their event, claimed under a lease, delivered
//! by the lease holder, and settled.
//!
//! A row is *claimable* when it is PENDING or FAILED and its `available_at` has passed, or when it is `IN_FLIGHT` and
//! its lease has expired. A row that was claimed without a lease, by NoETL's own server, has an implied lease of
//! [`DEFAULT_LEASE_SECONDS`] from `locked_at`. All times are on the database's clock.
//!
//! A row is DEAD after the last of its attempts failed, or if it can't be delivered as it is. It is claimed again only
//! after a retry, and the other rows of its execution don't wait for it. It is stored as FAILED with an `available_at`
//! of infinity: NoETL's table allows no other statuses than its four, and NoETL's own publisher claims FAILED rows whose
//! `available_at` has passed. The function `noetl.outbox_state` returns the status that the API shows; a stored status
//! that is none of the four is UNKNOWN, and such a row is never claimed.
//!
//! Each status has its own partial indexes: PENDING in outbox order, FAILED and `IN_FLIGHT` by the time at which the
//! row becomes claimable, and each by execution. While a long transaction is open, the index entries of settled rows
//! can't be cleaned up, and a reader scans all of them. [`LowWatermarks`] are low watermarks below which no open row was seen.
//! Claims read from there, so their cost does not grow with the number of rows settled before.
//!
//! Open rows move with the bucket of their execution, and are visible only on the shard that has the bucket. Published
//! rows stay on the shard that delivered them, and are visible there.

mod bulk;
mod claim;
mod forward;
mod list;
mod lost;
mod message;
mod purge;
mod renew;
mod settle;
mod watch;

use chrono::{DateTime, Utc};

pub use bulk::{ChangeRecord, ChangedRows, discard, discardable, retry, retryable};
pub use claim::{Claim, claim};
pub use forward::{Forward, absent, execution_of, forget_forwards, forwarded, forwards};
pub use list::{OutboxFilter, OutboxRow, count, list};
pub use lost::{Untouched, UntouchedPage, deliver_again, untouched};
pub use message::{Claimed, MAX_PAYLOAD_BYTES, Message};
pub use purge::{Purged, is_adopted, purge};
pub use renew::{Renewed, renew};
pub use settle::{Failed, Failure, Ref, mark_dead, mark_failed, mark_published, published_under, release};
pub use watch::{Backlog, MAX_COUNT, Probe, StatusCounts, SubjectCounts, backlog, counts, probe, subjects};

/// Default lease in seconds; also the implied lease of rows that were claimed without one.
pub const DEFAULT_LEASE_SECONDS: i32 = 30;

/// Low watermarks of the open rows, one per status: below them, every visible row was settled or under a live lease
/// when they were determined. They are hints. Ids and times are assigned before they are committed, so a row may later
/// appear below a watermark; users of the watermarks also read from [`LowWatermarks::START`] from time to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowWatermarks {
    /// Id of the first PENDING row.
    pub pending: i64,
    /// Time at which the first FAILED row became claimable.
    pub failed: DateTime<Utc>,
    /// Time at which the first lease expired.
    pub lease: DateTime<Utc>,
}

impl LowWatermarks {
    /// Marks below every row.
    pub const START: Self = Self { pending: 0, failed: DateTime::UNIX_EPOCH, lease: DateTime::UNIX_EPOCH };
}

//! The outbox over all shards: claim, settle, retry, discard, read.
//!
//! A claim is a lease. Until it expires, no other caller can claim the rows, and only its token settles them. Rows
//! claimed by a crashed worker become claimable when their lease expires. Rows are delivered at least once: if a worker
//! delivers a row and does not settle it in time, the row is delivered again under the same id.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::error::{Rejection, ServiceError};
use crate::listing::Listing;
use noetl_domain::outbox::{OutboxId, OutboxPosition};
use noetl_domain::page::{PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::{Caller, Scope};
use noetl_storage::outbox::{Backlog, Claimed, OutboxFilter, OutboxRow, StatusCounts, SubjectCounts};

/// Maximum number of subjects by which the rows of a shard are counted.
pub const MAX_SUBJECTS: i64 = 100;
/// Maximum number of rows in one claim, and in one settlement that a caller sends.
pub const MAX_ROWS: usize = 1000;

/// Request to claim rows.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Maximum number of rows (1 to 1000).
    pub limit: i64,
    /// Time in seconds until the lease expires (1 to 3600).
    pub lease_seconds: i64,
    /// Index of the only shard to claim from; `None`: all shards.
    pub shard: Option<i64>,
    /// Number of claims after which a row that is not delivered is dead (1 to 1000); `None`: as the deployment sets it.
    pub max_attempts: Option<i64>,
    /// Beginnings of the subjects to claim; `None`: all subjects.
    pub subjects: Option<Vec<String>>,
    /// Name of the claimant (at most 256 bytes).
    pub claimant: Option<String>,
}

/// A claimed row with its id over all shards.
#[derive(Debug, Clone)]
pub struct ClaimedRow {
    /// Id of the row.
    pub id: OutboxId,
    /// Content of the row, and its lease token.
    pub row: Claimed,
}

/// Result of a claim.
#[derive(Debug, Default)]
pub struct Claims {
    /// Claimed rows, by shard and then in outbox order.
    pub rows: Vec<ClaimedRow>,
    /// Shards that could not be reached or that failed. Nothing was claimed there, or the outcome is unknown.
    pub unavailable: Vec<ShardIndex>,
}

/// Reference to a claim, as its holder sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRef {
    /// The claimed row.
    pub id: OutboxId,
    /// Token of the lease.
    pub lease: i64,
}

/// Claimed row whose delivery failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedDelivery {
    /// The claim of the row.
    pub claim: ClaimRef,
    /// Error of the delivery, which the row stores.
    pub error: String,
}

/// Result of marking rows as published.
#[derive(Debug, Default)]
pub struct Published {
    /// Number of rows whose status this call changed.
    pub published: u64,
    /// Claims that do not settle their row, or no longer settle it. Another claim of the same row may settle it.
    pub stale: BTreeSet<ClaimRef>,
    /// Shards that failed. Their rows may or may not be settled.
    pub failed: BTreeMap<ShardIndex, ServiceError>,
}

/// Result of an operation on claimed rows, each with the outcome of its claim.
#[derive(Debug)]
pub struct Settled<T> {
    /// Outcomes of the claims that hold their row. The other claims are stale.
    pub outcomes: HashMap<ClaimRef, T>,
    /// Shards that failed. Their rows may or may not be changed.
    pub failed: BTreeMap<ShardIndex, ServiceError>,
}

impl<T> Default for Settled<T> {
    fn default() -> Self {
        Self { outcomes: HashMap::new(), failed: BTreeMap::new() }
    }
}

/// Row that was marked as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRow {
    /// Delay in seconds before the row is claimable again; `None`: the row is DEAD.
    pub retry_in: Option<i32>,
}

/// Manner of a change of the rows that match a filter.
#[derive(Debug, Clone, Copy)]
pub struct RowChange<'a> {
    /// Reason for the logs.
    pub reason: Option<&'a str>,
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// Caller of the request.
    pub caller: &'a Caller,
}

/// Result of a change of the rows that match a filter.
#[derive(Debug, Default)]
pub struct BulkChange {
    /// Number of matching rows.
    pub matched: u64,
    /// Number of changed rows; 0 in a dry run.
    pub changed: u64,
    /// Shards that could not be reached or that failed.
    pub unavailable: Vec<ShardIndex>,
}

/// Statistics of the shards that could be read.
#[derive(Debug, Default)]
pub struct Stats<T> {
    /// Values by shard.
    pub shards: Vec<(ShardIndex, T)>,
    /// Shards that could not be read.
    pub unavailable: Vec<ShardIndex>,
}

/// A row with its id over all shards.
#[derive(Debug, Clone)]
pub struct ListedRow {
    /// Id of the row.
    pub id: OutboxId,
    /// Content of the row.
    pub row: OutboxRow,
}

impl ListedRow {
    /// Returns the row's position in the list.
    #[must_use]
    pub fn position(&self) -> OutboxPosition {
        OutboxPosition { created_at: self.row.created_at, id: self.id }
    }
}

/// Claiming outbox rows.
#[async_trait]
pub trait ClaimRows: Debug + Send + Sync {
    /// Claims rows in the scope under a lease, from one shard or from all.
    async fn claim(&self, claim: Claim, scope: &Scope) -> Result<Claims, ServiceError>;
}

/// Settling claims, and extending their leases.
///
/// A settlement must carry the token of the row's latest claim. A token settles its row once. Marking the row as
/// published again with the same token changes nothing and is not counted; any other repetition is stale. An expired
/// lease still settles its row until another claim takes the row.
#[async_trait]
pub trait SettleClaims: Debug + Send + Sync {
    /// Marks claimed rows as published. Rows that are not in the scope are stale.
    async fn mark_published(&self, claims: &[ClaimRef], scope: &Scope) -> Result<Published, ServiceError>;

    /// Marks claimed rows as failed. Rows that are not in the scope are stale. Of several failures of one claim, the
    /// first counts.
    async fn mark_failed(
        &self,
        failures: &[FailedDelivery],
        max_delay_seconds: i64,
        scope: &Scope,
    ) -> Result<Settled<FailedRow>, ServiceError>;

    /// Extends the leases of claimed rows that have not expired. Other rows, and those that are not in the scope, are
    /// stale.
    async fn renew_leases(
        &self,
        claims: &[ClaimRef],
        lease_seconds: i64,
        scope: &Scope,
    ) -> Result<Settled<DateTime<Utc>>, ServiceError>;

    /// Checks that the row's shard exists. `field` is the path of the id.
    fn check_id(&self, field: &str, id: OutboxId) -> Result<(), Rejection>;
}

/// Retrying and discarding outbox rows by a filter. A filter without a condition matches every row: the caller
/// must have selected all of them. Each change is recorded in the log of the row's execution, in the same statement.
#[async_trait]
pub trait ChangeRows: Debug + Send + Sync {
    /// Makes matching FAILED and DEAD rows in the caller's scope claimable at once. A dry run only counts them.
    async fn retry(&self, filter: &OutboxFilter, change: RowChange<'_>) -> Result<BulkChange, ServiceError>;

    /// Deletes matching DEAD rows in the caller's scope. A dry run only counts them.
    async fn discard(&self, filter: &OutboxFilter, change: RowChange<'_>) -> Result<BulkChange, ServiceError>;
}

/// Reading the outbox.
#[async_trait]
pub trait ReadOutbox: Debug + Send + Sync {
    /// Returns the number of rows that are claimable now. Fails only if no shard could be read.
    async fn backlog(&self) -> Result<Stats<Backlog>, ServiceError>;

    /// Returns the backlog, and the numbers of rows in flight, FAILED and DEAD, in the scope. Fails only if no shard
    /// could be read.
    async fn stats(&self, scope: &Scope) -> Result<Stats<(Backlog, StatusCounts)>, ServiceError>;

    /// Returns the numbers of rows in the scope that are not published, by subject: for each shard its
    /// [`MAX_SUBJECTS`] subjects with most rows. Fails only if no shard could be read.
    async fn subjects(&self, scope: &Scope) -> Result<Stats<Vec<SubjectCounts>>, ServiceError>;

    /// Returns a page in the scope over all shards, newest first: by time, then shard, then number. Reads payloads only
    /// if `payloads` is set.
    async fn list(
        &self,
        filter: &OutboxFilter,
        payloads: bool,
        request: &PageRequest<OutboxPosition>,
        scope: &Scope,
    ) -> Result<Listing<ListedRow>, ServiceError>;

    /// Returns the rows in the scope with these ids, or the error of their shard. Rows that do not exist are left out.
    /// Reads payloads only if `payloads` is set.
    async fn by_ids(
        &self,
        ids: &[OutboxId],
        payloads: bool,
        scope: &Scope,
    ) -> HashMap<OutboxId, Result<ListedRow, ServiceError>>;

    /// Returns a rejection for each of these ids that has no row in the scope. `field` is the path of the list. The ids
    /// of a shard that can't be read are left out. Refuses the whole list if it names a shard that does not exist.
    async fn unknown_ids(&self, field: &str, ids: &[OutboxId], scope: &Scope) -> Result<Vec<Rejection>, Rejection>;

    /// Counts rows in the scope over all shards, up to `limit`.
    async fn total(&self, filter: &OutboxFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError>;
}

/// All use cases of the outbox.
pub trait Outbox: ClaimRows + SettleClaims + ChangeRows + ReadOutbox {}

impl<T: ClaimRows + SettleClaims + ChangeRows + ReadOutbox> Outbox for T {}

//! Payloads of the mutations of the outbox.

use async_graphql::{Context, ID, Object, Result, SimpleObject};

use super::types::{OutboxClaim, OutboxEntry};
use crate::audit::{AuditedPayload, audited_payload};
use crate::errors::UserError;
use crate::scalars::Time;
use noetl_domain::outbox::OutboxId;

/// Entry that a caller named, as the results contain it.
#[derive(Debug)]
pub(super) enum NamedEntry {
    /// Entry of a shard that exists. It is read if it is selected.
    Known(OutboxId),
    /// Entry of a shard that could not be reached in time. The shard is not asked again.
    Unavailable(OutboxId),
    /// Malformed id, or the id of a shard that does not exist, as the caller gave it.
    Invalid(ID),
}

#[Object]
impl NamedEntry {
    /// Shard of the entry and its number on the shard, as `<shard>-<number>`. A malformed id is returned as the caller
    /// gave it.
    async fn entry_id(&self) -> ID {
        match self {
            Self::Known(id) | Self::Unavailable(id) => id.to_string().into(),
            Self::Invalid(given) => given.clone(),
        }
    }

    /// Entry after the request, also if it was refused. Null if it does not exist or its shard can't be reached.
    async fn entry(&self, ctx: &Context<'_>) -> Result<Option<OutboxEntry>> {
        match self {
            Self::Known(id) => OutboxEntry::load(ctx, *id).await,
            Self::Unavailable(_) | Self::Invalid(_) => Ok(None),
        }
    }
}

/// Result of claiming outbox entries.
#[derive(Debug, SimpleObject)]
pub(super) struct ClaimOutboxPayload {
    /// Entries that the caller holds until their leases expire. The entries of each execution are in outbox order.
    pub(super) claims: Vec<OutboxClaim>,
    /// Shards that could not be reached. Entries that were claimed there without a response become claimable when their
    /// leases expire.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of marking entries as delivered.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxPublishedPayload {
    /// Number of entries that this request marked as delivered. An entry that was already marked under the same lease is
    /// not counted again.
    pub(super) published: i32,
    /// Results; result i belongs to claim i.
    pub(super) results: Vec<MarkOutboxPublishedResult>,
    /// Reasons the whole request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of marking one entry as delivered.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxPublishedResult {
    /// Index of the claim in the request, counted from 0.
    pub(super) index: i32,
    #[graphql(flatten)]
    pub(super) named: NamedEntry,
    /// Reasons the entry was not marked. `STALE_LEASE`: it was marked as failed, another caller has claimed it since, or
    /// it does not exist. An expired lease still marks its entry until another caller claims it.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of extending leases.
#[derive(Debug, SimpleObject)]
pub(super) struct RenewOutboxLeasesPayload {
    /// Results; result i belongs to claim i.
    pub(super) results: Vec<RenewOutboxLeasesResult>,
    /// Reasons the whole request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of extending one lease.
#[derive(Debug, SimpleObject)]
pub(super) struct RenewOutboxLeasesResult {
    /// Index of the claim in the request, counted from 0.
    pub(super) index: i32,
    #[graphql(flatten)]
    pub(super) named: NamedEntry,
    /// Time at which the lease expires; null if it was not extended.
    pub(super) lease_expires_at: Option<Time>,
    /// Reasons the lease was not extended. `STALE_LEASE`: it has expired, the entry was settled, or it does not exist.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of marking entries as not delivered.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxFailedPayload {
    /// Results; result i belongs to failure i.
    pub(super) results: Vec<MarkOutboxFailedResult>,
    /// Reasons the whole request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of marking one entry as not delivered.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxFailedResult {
    /// Index of the failure in the request, counted from 0.
    pub(super) index: i32,
    #[graphql(flatten)]
    pub(super) named: NamedEntry,
    /// Delay in seconds before the entry is claimable again; null if it is `DEAD` or was not marked.
    pub(super) retry_in_seconds: Option<i32>,
    /// Whether the entry is `DEAD`, because this was the last of its attempts.
    pub(super) dead: bool,
    /// Reasons the entry was not marked. `STALE_LEASE`: it was settled, another caller has claimed it since, or it does
    /// not exist. An expired lease still marks its entry until another caller claims it.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of retrying failed and `DEAD` entries.
#[derive(Debug, SimpleObject)]
pub(super) struct RetryOutboxPayload {
    /// Number of selected failed entries that were not due yet, and of selected `DEAD` entries.
    pub(super) matched: i32,
    /// Number of these entries that are claimable now: at most 100,000 on each shard, and 0 in a dry run.
    pub(super) retried: i32,
    /// Shards that could not be reached. Their entries were not selected.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out. `NOT_FOUND`: a selected id has no entry; the other
    /// entries were changed.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of discarding `DEAD` entries.
#[derive(Debug, SimpleObject)]
pub(super) struct DiscardOutboxPayload {
    /// Number of selected `DEAD` entries.
    pub(super) matched: i32,
    /// Number of these entries that were deleted: at most 100,000 on each shard, and 0 in a dry run.
    pub(super) discarded: i32,
    /// Shards that could not be reached. Their entries were not selected.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out. `NOT_FOUND`: a selected id has no entry; the other
    /// entries were changed.
    pub(super) user_errors: Vec<UserError>,
}

impl AuditedPayload for ClaimOutboxPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.claims.iter().map(|claim| claim.0.id.to_string()).collect()
    }
}

audited_payload!(MarkOutboxPublishedPayload, results);
audited_payload!(RenewOutboxLeasesPayload, results);
audited_payload!(MarkOutboxFailedPayload, results);
audited_payload!(RetryOutboxPayload);
audited_payload!(DiscardOutboxPayload);

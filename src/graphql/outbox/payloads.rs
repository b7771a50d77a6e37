//! Payloads of the mutations of the outbox.

use async_graphql::{ID, SimpleObject};

use super::types::OutboxClaim;
use crate::graphql::audit::AuditedPayload;
use crate::graphql::errors::UserError;

/// Result of claiming outbox rows.
#[derive(Debug, SimpleObject)]
pub(super) struct ClaimOutboxPayload {
    /// Rows that the caller holds until their leases expire. The rows of each execution are in outbox order.
    pub(super) claims: Vec<OutboxClaim>,
    /// Shards that could not be reached. Rows that were claimed there without a response become claimable when their
    /// leases expire.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of marking rows as delivered.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxPublishedPayload {
    /// Number of rows that this request marked as delivered. A row that was already marked under the same lease is not
    /// counted again.
    pub(super) published: i32,
    /// Ids of rows that these leases can't settle: the row was marked as failed, another caller has claimed it since,
    /// or it does not exist.
    pub(super) stale: Vec<ID>,
    /// Reasons the request was refused, or the rows of a shard could not be marked.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of marking a row as not delivered.
#[derive(Debug, SimpleObject)]
pub(super) struct MarkOutboxFailedPayload {
    /// Delay in seconds before the row is claimable again; null if the row is `DEAD` or the request was refused.
    pub(super) retry_in_seconds: Option<i32>,
    /// Whether the row is `DEAD`, because this was the last of its attempts.
    pub(super) dead: bool,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of retrying failed and `DEAD` rows.
#[derive(Debug, SimpleObject)]
pub(super) struct RetryOutboxPayload {
    /// Number of selected failed rows that were not due yet, and of selected `DEAD` rows.
    pub(super) matched: i32,
    /// Number of these rows that are claimable now: at most 100,000 on each shard, and 0 in a dry run.
    pub(super) retried: i32,
    /// Shards that could not be reached. Their rows were not selected.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

/// Result of discarding `DEAD` rows.
#[derive(Debug, SimpleObject)]
pub(super) struct DiscardOutboxPayload {
    /// Number of selected `DEAD` rows.
    pub(super) matched: i32,
    /// Number of these rows that were deleted: at most 100,000 on each shard, and 0 in a dry run.
    pub(super) discarded: i32,
    /// Shards that could not be reached. Their rows were not selected.
    pub(super) unavailable_shards: Vec<u16>,
    /// Reasons the request was refused; empty if it was carried out.
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

impl AuditedPayload for MarkOutboxPublishedPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }
}

impl AuditedPayload for MarkOutboxFailedPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }
}

impl AuditedPayload for RetryOutboxPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }
}

impl AuditedPayload for DiscardOutboxPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }
}

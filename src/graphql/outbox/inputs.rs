//! Inputs of the outbox. Bounded numbers are 64-bit, so that a number beyond GraphQL's `Int` is refused with an error
//! that names its field.

use async_graphql::{Context, ID, InputObject};

use super::status::OutboxStatus;
use crate::graphql::filters::{check_list, check_owner};
use crate::graphql::scalars::parse_id;
use crate::graphql::selector::{Selected, selector};
use crate::service::error::Rejection;
use crate::service::outbox::{Claim, ClaimRef};
use noetl_domain::backoff::DEFAULT_MAX_SECONDS;
use noetl_domain::outbox::{MalformedOutboxId, OutboxId};
use noetl_storage::outbox as storage;

/// Filter for outbox rows. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct OutboxFilter {
    /// Only rows with one of these statuses.
    statuses: Option<Vec<OutboxStatus>>,
    /// Only rows of this execution.
    execution_id: Option<ID>,
    /// Only rows that were claimed at least this many times (at least 1).
    min_attempts: Option<i32>,
    /// Only rows with one of these ids (at most 1000).
    ids: Option<Vec<ID>>,
    /// Only rows of this tenant.
    tenant_id: Option<String>,
    /// Only rows of this organization.
    organization_id: Option<String>,
}

impl OutboxFilter {
    /// Converts the input to the storage layer's filter and parses its ids. `field` is the path of the filter in the
    /// input.
    pub fn parse(self, field: &str) -> Result<storage::OutboxFilter, Rejection> {
        let execution = self.execution_id.map(|id| parse_id(&format!("{field}.executionId"), &id)).transpose()?;
        let statuses = self.statuses.map(|statuses| {
            let mut statuses: Vec<_> = statuses.into_iter().map(Into::into).collect();
            statuses.sort_unstable();
            statuses.dedup();
            statuses
        });
        Ok(storage::OutboxFilter {
            statuses,
            execution_id: execution,
            min_attempts: self.min_attempts.map(|least| min_attempts(field, least)).transpose()?,
            ids: self.ids.map(|ids| row_ids(&format!("{field}.ids"), &ids)).transpose()?,
            tenant_id: check_owner(&format!("{field}.tenantId"), self.tenant_id)?,
            organization_id: check_owner(&format!("{field}.organizationId"), self.organization_id)?,
        })
    }
}

fn row_ids(field: &str, ids: &[ID]) -> Result<Vec<OutboxId>, Rejection> {
    check_list(field, ids)?;
    let parse = |(at, id): (usize, &ID)| {
        id.parse().map_err(|bad: MalformedOutboxId| Rejection::invalid(&format!("{field}.{at}"), bad.to_string()))
    };
    ids.iter().enumerate().map(parse).collect()
}

fn min_attempts(field: &str, least: i32) -> Result<i32, Rejection> {
    if least >= 1 {
        return Ok(least);
    }
    let message = format!("minAttempts must be at least 1, not {least}");
    Err(Rejection::invalid(&format!("{field}.minAttempts"), message))
}

selector! {
    /// Selection of outbox rows.
    OutboxSelector, OutboxFilter
}

impl OutboxSelector {
    /// Converts the selector to the storage layer's filter.
    pub fn parse(self, ctx: &Context<'_>) -> Result<storage::OutboxFilter, Rejection> {
        Ok(match self.check(ctx)? {
            Selected::Ids(ids) => {
                storage::OutboxFilter { ids: Some(row_ids("select.ids", &ids)?), ..storage::OutboxFilter::default() }
            }
            Selected::Filter(filter) => filter.parse("select.filter")?,
            Selected::All => storage::OutboxFilter::default(),
        })
    }
}

/// Claim of outbox rows.
#[derive(Debug, InputObject)]
pub struct ClaimOutboxInput {
    /// Maximum number of rows (1 to 1000, default 100).
    #[graphql(default = 100)]
    limit: i64,
    /// Length of the lease in seconds (1 to 3600, default 30). After it expires, other callers can claim the rows.
    #[graphql(default_with = "i64::from(storage::DEFAULT_LEASE_SECONDS)")]
    lease_seconds: i64,
    /// Index of the only shard to claim from (default: all shards, in equal shares).
    shard: Option<i64>,
    /// Number of claims after which a row that is not delivered is `DEAD`, this claim included (1 to 1000; default: the
    /// server's setting `NOETL_OUTBOX_MAX_ATTEMPTS`).
    max_attempts: Option<i64>,
}

impl From<ClaimOutboxInput> for Claim {
    fn from(input: ClaimOutboxInput) -> Self {
        Self {
            limit: input.limit,
            lease_seconds: input.lease_seconds,
            shard: input.shard,
            max_attempts: input.max_attempts,
        }
    }
}

/// Reference to a claimed row and its lease.
#[derive(Debug, InputObject)]
pub struct OutboxClaimRef {
    /// Id of the row.
    id: ID,
    /// Lease token that the claim returned.
    lease: ID,
}

/// Rows that were delivered.
#[derive(Debug, InputObject)]
pub struct MarkOutboxPublishedInput {
    /// Claimed rows (at most 1000).
    claims: Vec<OutboxClaimRef>,
}

impl MarkOutboxPublishedInput {
    /// Returns the ids of the rows, as the caller gave them.
    #[must_use]
    pub fn rows(&self) -> Vec<String> {
        self.claims.iter().map(|claim| claim.id.to_string()).collect()
    }

    /// Converts the input to references of the service and parses their ids.
    pub fn parse(self) -> Result<Vec<ClaimRef>, Rejection> {
        let claims = self.claims.iter().enumerate();
        claims.map(|(at, claim)| claim_ref(&format!("claims.{at}."), &claim.id, &claim.lease)).collect()
    }
}

/// Row that was not delivered.
#[derive(Debug, InputObject)]
pub struct MarkOutboxFailedInput {
    /// Id of the row.
    pub id: ID,
    /// Lease token that the claim returned.
    lease: ID,
    /// Error message. The first 2000 characters are stored.
    pub error: String,
    /// Maximum delay in seconds before the row is claimable again (1 to 86400, default 300).
    #[graphql(default_with = "i64::from(DEFAULT_MAX_SECONDS)")]
    pub max_delay_seconds: i64,
}

impl MarkOutboxFailedInput {
    /// Converts the input to a reference of the service and parses its ids.
    pub fn claim(&self) -> Result<ClaimRef, Rejection> {
        claim_ref("", &self.id, &self.lease)
    }
}

/// Failed and `DEAD` rows to make claimable immediately.
#[derive(Debug, InputObject)]
pub struct RetryOutboxInput {
    /// Rows to retry. Of the selected rows, only failed rows that are not due yet and `DEAD` rows are retried.
    pub select: OutboxSelector,
    /// Whether to change nothing and only count the rows (default false).
    #[graphql(default = false)]
    pub dry_run: bool,
}

/// `DEAD` rows to delete.
#[derive(Debug, InputObject)]
pub struct DiscardOutboxInput {
    /// Rows to discard. Of the selected rows, only `DEAD` rows are discarded.
    pub select: OutboxSelector,
    /// Whether to change nothing and only count the rows (default false).
    #[graphql(default = false)]
    pub dry_run: bool,
}

fn claim_ref(prefix: &str, id: &ID, lease: &ID) -> Result<ClaimRef, Rejection> {
    let bad = |malformed: MalformedOutboxId| Rejection::invalid(&format!("{prefix}id"), malformed.to_string());
    let id: OutboxId = id.parse().map_err(bad)?;
    Ok(ClaimRef { id, lease: parse_id(&format!("{prefix}lease"), lease)?.get() })
}

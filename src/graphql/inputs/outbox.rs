//! Inputs of the outbox. Numbers are wider than GraphQL's Int, so that what is out of bounds is refused in the terms of
//! its field.

use async_graphql::{ID, InputObject};

use crate::domain::outbox::OutboxId;
use crate::graphql::scalars::parse_id;
use crate::graphql::types::outbox::OutboxStatus;
use crate::service::error::Rejection;
use crate::service::outbox::{Claim, ClaimRef};
use crate::storage::outbox as storage;

/// Which outbox rows; conditions that are left out hold for all.
#[derive(Debug, Clone, Default, InputObject)]
pub struct OutboxFilter {
    /// Only these states.
    statuses: Option<Vec<OutboxStatus>>,
    /// Only this execution's.
    execution_id: Option<ID>,
    /// Only rows that were claimed at least so often.
    min_attempts: Option<i32>,
}

impl OutboxFilter {
    /// The filter, with its ids read; `field` is where it stands in the input.
    pub fn parse(self, field: &str) -> Result<storage::OutboxFilter, Rejection> {
        let execution = self.execution_id.map(|id| parse_id(&format!("{field}.executionId"), &id)).transpose()?;
        let statuses = self.statuses.map(|statuses| {
            let mut statuses: Vec<_> = statuses.into_iter().map(Into::into).collect();
            statuses.sort_unstable();
            statuses.dedup();
            statuses
        });
        Ok(storage::OutboxFilter { statuses, execution_id: execution, min_attempts: self.min_attempts })
    }
}

/// What to claim.
#[derive(Debug, InputObject)]
pub struct ClaimOutboxInput {
    /// How many rows at most: 1 to 1000.
    #[graphql(default = 100)]
    limit: i64,
    /// For how long, 1 to 3600; then others may claim them.
    #[graphql(default = 30)]
    lease_seconds: i64,
    /// Only from this shard; by default every shard gives its share.
    shard: Option<i64>,
}

impl From<ClaimOutboxInput> for Claim {
    fn from(input: ClaimOutboxInput) -> Self {
        Self { limit: input.limit, lease_seconds: input.lease_seconds, shard: input.shard }
    }
}

/// A claimed row and its lease.
#[derive(Debug, InputObject)]
pub struct OutboxClaimRef {
    /// The row.
    id: ID,
    /// The lease that the claim gave.
    lease: ID,
}

/// Which rows were delivered.
#[derive(Debug, InputObject)]
pub struct MarkOutboxPublishedInput {
    /// At most 1000.
    claims: Vec<OutboxClaimRef>,
}

impl MarkOutboxPublishedInput {
    /// The rows, as the caller names them.
    #[must_use]
    pub fn rows(&self) -> Vec<String> {
        self.claims.iter().map(|claim| claim.id.to_string()).collect()
    }

    /// The claims, with their ids read.
    pub fn parse(self) -> Result<Vec<ClaimRef>, Rejection> {
        let claims = self.claims.iter().enumerate();
        claims.map(|(at, claim)| claim_ref(&format!("claims.{at}."), &claim.id, &claim.lease)).collect()
    }
}

/// Which row was not delivered, and why.
#[derive(Debug, InputObject)]
pub struct MarkOutboxFailedInput {
    /// The row.
    pub id: ID,
    /// The lease that the claim gave.
    lease: ID,
    /// Why; 2000 characters of it are kept.
    pub error: String,
    /// The longest wait before the row is due again, 1 to 86400 seconds.
    #[graphql(default = 300)]
    pub max_delay_seconds: i64,
}

impl MarkOutboxFailedInput {
    /// The claim, with its ids read.
    pub fn claim(&self) -> Result<ClaimRef, Rejection> {
        claim_ref("", &self.id, &self.lease)
    }
}

/// Which failed rows to make due at once.
#[derive(Debug, InputObject)]
pub struct RetryOutboxInput {
    /// Which ones; of these, those that are backing off.
    pub filter: OutboxFilter,
    /// Only tell how many there are.
    #[graphql(default = false)]
    pub dry_run: bool,
}

fn claim_ref(prefix: &str, id: &ID, lease: &ID) -> Result<ClaimRef, Rejection> {
    let bad = |malformed: crate::domain::outbox::MalformedOutboxId| {
        Rejection::invalid(&format!("{prefix}id"), malformed.to_string())
    };
    let id: OutboxId = id.parse().map_err(bad)?;
    Ok(ClaimRef { id, lease: parse_id(&format!("{prefix}lease"), lease)?.get() })
}

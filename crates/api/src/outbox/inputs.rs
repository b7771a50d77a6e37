//! Inputs of the outbox. Bounded numbers are 64-bit, so that a number beyond GraphQL's `Int` is refused with an error
//! that names its field.

use async_graphql::{Context, ID, InputObject, OneofObject};

use super::status::OutboxStatus;
use crate::filters::checked_text;
use crate::scalars::{GivenItem, parse_id};
use crate::selector::{Selected, check_all, check_input, selector};
use noetl_domain::backoff::DEFAULT_MAX_SECONDS;
use noetl_domain::execution::is_pool_name;
use noetl_domain::outbox::{MalformedOutboxId, OutboxId};
use noetl_domain::outbox_message::selected_subjects;
use noetl_storage::outbox as storage;
use noetl_use_cases::bounds::check_count;
use noetl_use_cases::error::Rejection;
use noetl_use_cases::outbox::{Claim, ClaimRef, FailedDelivery, MAX_ROWS};

/// Maximum number of pools that a claim names.
const MAX_POOLS: usize = 100;
/// Number of entries that are claimed if the request names none.
const DEFAULT_CLAIMS: i64 = 100;

/// Filter for outbox entries. An omitted condition matches everything.
#[derive(Debug, Clone, Default, InputObject)]
pub struct OutboxFilter {
    /// Only entries with one of these statuses.
    statuses: Option<Vec<OutboxStatus>>,
    /// Only entries of this execution.
    execution_id: Option<ID>,
    /// Only entries that were claimed at least this many times (at least 1).
    min_attempts: Option<i32>,
    /// Only entries of this tenant.
    tenant_id: Option<String>,
    /// Only entries of this organization.
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
            tenant_id: checked_text(&format!("{field}.tenantId"), self.tenant_id)?,
            organization_id: checked_text(&format!("{field}.organizationId"), self.organization_id)?,
            ..storage::OutboxFilter::default()
        })
    }
}

fn row_ids(field: &str, ids: &[ID]) -> Result<Vec<OutboxId>, Rejection> {
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
    /// Selection of outbox entries.
    OutboxSelector, OutboxFilter
}

/// Selected entries.
#[derive(Debug, Default)]
pub struct OutboxSelection {
    /// Filter that the entries match.
    pub filter: storage::OutboxFilter,
    /// Ids that the caller listed; empty if the entries were not selected by id.
    pub ids: Vec<OutboxId>,
}

impl OutboxSelector {
    /// Converts the selector to the storage layer's filter.
    pub fn parse(self, ctx: &Context<'_>) -> Result<OutboxSelection, Rejection> {
        Ok(match self.check(ctx)? {
            Selected::Ids(ids) => {
                let ids = row_ids("select.ids", &ids)?;
                let filter = storage::OutboxFilter { ids: Some(ids.clone()), ..storage::OutboxFilter::default() };
                OutboxSelection { filter, ids }
            }
            Selected::Filter(filter) => OutboxSelection { filter: filter.parse("select.filter")?, ids: Vec::new() },
            Selected::All => OutboxSelection::default(),
        })
    }
}

/// Selection of the entries to claim.
#[derive(Debug, OneofObject)]
pub enum OutboxClaimSelector {
    /// Selects by a filter, with at least one condition. A condition that is null, empty, or a variable without a value
    /// is refused.
    Filter(OutboxClaimFilter),
    /// Selects all entries. The value must be true.
    All(bool),
}

/// Filter for the entries to claim. An entry must meet all conditions. A later entry of an execution is never claimed
/// before an earlier one: if the filter excludes an entry, the later ones of its execution wait until it is delivered or
/// `DEAD`.
#[derive(Debug, InputObject)]
pub struct OutboxClaimFilter {
    /// Only commands for these pools of workers: the entries whose subject begins with `noetl.executions.<pool>.` or
    /// `noetl.commands.<pool>.` (1 to 100 pools).
    pools: Option<Vec<String>>,
    /// Only entries whose subject begins with this text. The subject is the one that the claim shows.
    subject_prefix: Option<String>,
}

impl OutboxClaimSelector {
    /// Returns the beginnings of the subjects to claim; `None`: all subjects.
    fn parse(self, ctx: &Context<'_>) -> Result<Option<Vec<String>>, Rejection> {
        check_input(ctx)?;
        match self {
            Self::Filter(filter) => filter.parse(),
            Self::All(all) => check_all::<OutboxClaimFilter>(all).map(|_| None),
        }
    }
}

impl OutboxClaimFilter {
    fn parse(self) -> Result<Option<Vec<String>>, Rejection> {
        let pools = self.pools.as_deref();
        if let Some(pools) = pools {
            if pools.len() > MAX_POOLS {
                let message = format!("a claim names at most {MAX_POOLS} pools, not {}", pools.len());
                return Err(Rejection::invalid("select.filter.pools", message));
            }
            if let Some(wrong) = pools.iter().position(|pool| !is_pool_name(pool)) {
                let message = "a pool's name has 1 to 64 letters, digits, - and _";
                return Err(Rejection::invalid(&format!("select.filter.pools.{wrong}"), message));
            }
        }
        let prefix = checked_text("select.filter.subjectPrefix", self.subject_prefix)?;
        Ok(selected_subjects(pools, prefix.as_deref()))
    }
}

/// Claim of outbox entries.
#[derive(Debug, InputObject)]
pub struct ClaimOutboxInput {
    /// Entries to claim.
    select: OutboxClaimSelector,
    /// Name of the claimant, which the entries show (1 to 256 bytes; default: the subject of the caller, if the server
    /// identifies callers).
    claimant: Option<String>,
    /// Maximum number of entries (1 to 1000, default 100).
    limit: Option<i64>,
    /// Length of the lease in seconds (1 to 3600, default 30). After it expires, other callers can claim the entries.
    lease_seconds: Option<i64>,
    /// Index of the only shard to claim from (default: all shards, in equal shares).
    shard: Option<i64>,
    /// Number of claims after which an entry that is not delivered is `DEAD`, this claim included (1 to 1000; default:
    /// the server's setting `NOETL_OUTBOX_MAX_ATTEMPTS`).
    max_attempts: Option<i64>,
}

impl ClaimOutboxInput {
    /// Converts the input to a claim of the service.
    pub fn parse(self, ctx: &Context<'_>) -> Result<Claim, Rejection> {
        Ok(Claim {
            subjects: self.select.parse(ctx)?,
            claimant: self.claimant,
            limit: self.limit.unwrap_or(DEFAULT_CLAIMS),
            lease_seconds: self.lease_seconds.unwrap_or(storage::DEFAULT_LEASE_SECONDS.into()),
            shard: self.shard,
            max_attempts: self.max_attempts,
        })
    }
}

/// Reference to a claimed entry and its lease.
#[derive(Debug, InputObject)]
pub struct OutboxClaimRef {
    /// Id of the entry: `entryId` or `id`.
    entry_id: ID,
    /// Lease token that the claim returned.
    lease: ID,
}

impl OutboxClaimRef {
    /// Parses the reference, which is the value of a field.
    pub fn parse(&self, field: &str) -> Result<ClaimRef, Rejection> {
        claim_ref(&format!("{field}."), &self.entry_id, &self.lease)
    }
}

/// Returns the ids of claimed entries, as the caller gave them.
pub(super) fn entry_ids(claims: &[OutboxClaimRef]) -> Vec<String> {
    claims.iter().map(|claim| claim.entry_id.to_string()).collect()
}

/// Parses 1 to 1000 references to claims.
pub(super) fn given_claims(claims: Vec<OutboxClaimRef>) -> Result<Vec<GivenItem<ClaimRef>>, Rejection> {
    check_count("claims", claims.len(), MAX_ROWS)?;
    let given = |(at, claim): (usize, OutboxClaimRef)| {
        let item = claim_ref(&format!("claims.{at}."), &claim.entry_id, &claim.lease);
        GivenItem { id: claim.entry_id, item }
    };
    Ok(claims.into_iter().enumerate().map(given).collect())
}

/// Entries that were delivered.
#[derive(Debug, InputObject)]
pub struct MarkOutboxPublishedInput {
    /// Claimed entries (1 to 1000). Result i belongs to claim i.
    pub(super) claims: Vec<OutboxClaimRef>,
}

/// Leases to extend.
#[derive(Debug, InputObject)]
pub struct RenewOutboxLeasesInput {
    /// Claimed entries whose leases have not expired (1 to 1000). Result i belongs to claim i.
    pub(super) claims: Vec<OutboxClaimRef>,
    /// Time in seconds from now until the leases expire (1 to 3600, default 30). A lease is never shortened.
    lease_seconds: Option<i64>,
}

impl RenewOutboxLeasesInput {
    /// Returns the length of the leases in seconds.
    #[must_use]
    pub fn lease_seconds(&self) -> i64 {
        self.lease_seconds.unwrap_or(storage::DEFAULT_LEASE_SECONDS.into())
    }
}

/// A claimed entry that was not delivered.
#[derive(Debug, InputObject)]
pub struct OutboxFailureInput {
    /// Id of the entry: `entryId` or `id`.
    entry_id: ID,
    /// Lease token that the claim returned.
    lease: ID,
    /// Error message. The first 2000 characters are stored.
    error: String,
}

/// Entries that were not delivered.
#[derive(Debug, InputObject)]
pub struct MarkOutboxFailedInput {
    /// Claimed entries with their errors (1 to 1000). Result i belongs to failure i.
    failures: Vec<OutboxFailureInput>,
    /// Maximum delay in seconds before the entries are claimable again (1 to 86400, default 300).
    max_delay_seconds: Option<i64>,
}

impl MarkOutboxFailedInput {
    /// Returns the maximum delay in seconds.
    #[must_use]
    pub fn max_delay_seconds(&self) -> i64 {
        self.max_delay_seconds.unwrap_or(DEFAULT_MAX_SECONDS.into())
    }

    /// Returns the ids of the entries, as the caller gave them.
    #[must_use]
    pub fn rows(&self) -> Vec<String> {
        self.failures.iter().map(|failure| failure.entry_id.to_string()).collect()
    }

    /// Parses the references to the claims.
    pub fn parse(self) -> Result<Vec<GivenItem<FailedDelivery>>, Rejection> {
        check_count("failures", self.failures.len(), MAX_ROWS)?;
        let given = |(at, failure): (usize, OutboxFailureInput)| {
            let claim = claim_ref(&format!("failures.{at}."), &failure.entry_id, &failure.lease);
            let item = claim.map(|claim| FailedDelivery { claim, error: failure.error });
            GivenItem { id: failure.entry_id, item }
        };
        Ok(self.failures.into_iter().enumerate().map(given).collect())
    }
}

/// Failed and `DEAD` entries to make claimable immediately.
#[derive(Debug, InputObject)]
pub struct RetryOutboxInput {
    /// Entries to retry. Of the selected entries, only failed entries that are not due yet and `DEAD` entries are retried.
    pub select: OutboxSelector,
    /// Reason, written to the logs of the executions (at most 4096 bytes).
    pub reason: Option<String>,
    /// Whether to change nothing and only count the entries (default false).
    #[graphql(default = false)]
    pub dry_run: bool,
}

/// `DEAD` entries to delete.
#[derive(Debug, InputObject)]
pub struct DiscardOutboxInput {
    /// Entries to discard. Of the selected entries, only `DEAD` entries are discarded.
    pub select: OutboxSelector,
    /// Reason, written to the logs of the executions (at most 4096 bytes).
    pub reason: Option<String>,
    /// Whether to change nothing and only count the entries (default false).
    #[graphql(default = false)]
    pub dry_run: bool,
}

fn claim_ref(prefix: &str, id: &ID, lease: &ID) -> Result<ClaimRef, Rejection> {
    let bad = |malformed: MalformedOutboxId| Rejection::invalid(&format!("{prefix}entryId"), malformed.to_string());
    let id: OutboxId = id.parse().map_err(bad)?;
    Ok(ClaimRef { id, lease: parse_id(&format!("{prefix}lease"), lease)?.get() })
}

//! Mutations of the outbox.

use async_graphql::{Context, Object, Result};

use super::inputs::{
    ClaimOutboxInput, DiscardOutboxInput, GivenItem, MarkOutboxFailedInput, MarkOutboxPublishedInput, OutboxSelector,
    RenewOutboxLeasesInput, RetryOutboxInput,
};
use super::payloads::{
    ClaimOutboxPayload, DiscardOutboxPayload, MarkOutboxFailedPayload, MarkOutboxFailedResult,
    MarkOutboxPublishedPayload, MarkOutboxPublishedResult, RenewOutboxLeasesPayload, RenewOutboxLeasesResult,
    RetryOutboxPayload,
};
use super::types::OutboxClaim;
use crate::graphql::access::{OUTBOX, RETRY, caller, scope};
use crate::graphql::audit::audited;
use crate::graphql::context::Services;
use crate::graphql::errors::{UserError, item_error, result_or_user_error};
use crate::graphql::scalars::to_graphql_int;
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use crate::service::outbox::{BulkChange, Claim, ClaimRef, FailedDelivery, Outbox, Settled};
use noetl_domain::outbox::OutboxId;
use noetl_storage::outbox as storage;

/// Mutations of the outbox.
#[derive(Debug, Default)]
pub struct OutboxMutation;

#[Object]
impl OutboxMutation {
    /// Claims outbox entries for delivery. The entries of one execution are claimed in outbox order, and are never in
    /// flight with two lease holders.
    #[graphql(guard = "OUTBOX")]
    async fn claim_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Selection and limits of the claim.")] input: ClaimOutboxInput,
    ) -> Result<Option<ClaimOutboxPayload>> {
        audited(ctx, None::<String>, claim(ctx, input)).await.map(Some)
    }

    /// Marks claimed entries as delivered. Each entry succeeds or fails independently. The mutation is idempotent.
    #[graphql(guard = "OUTBOX")]
    async fn mark_outbox_published(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Claimed entries and their leases.")] input: MarkOutboxPublishedInput,
    ) -> Result<Option<MarkOutboxPublishedPayload>> {
        audited(ctx, input.rows(), mark_published(ctx, input)).await.map(Some)
    }

    /// Marks claimed entries as not delivered. Each entry succeeds or fails independently. An entry is claimable again
    /// after 1, 2, 4, … 256 seconds; the delay doubles with each attempt, up to `maxDelaySeconds`. After the last attempt
    /// that its claim allowed, an entry is `DEAD`.
    #[graphql(guard = "OUTBOX")]
    async fn mark_outbox_failed(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Claimed entries, their leases and their errors.")] input: MarkOutboxFailedInput,
    ) -> Result<Option<MarkOutboxFailedPayload>> {
        audited(ctx, input.rows(), mark_failed(ctx, input)).await.map(Some)
    }

    /// Extends the leases of claimed entries that have not expired. Each lease succeeds or fails independently.
    #[graphql(guard = "OUTBOX")]
    async fn renew_outbox_leases(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Claimed entries and their leases.")] input: RenewOutboxLeasesInput,
    ) -> Result<Option<RenewOutboxLeasesPayload>> {
        audited(ctx, input.rows(), renew(ctx, input)).await.map(Some)
    }

    /// Makes failed entries that are not due yet, and `DEAD` entries, claimable immediately. The attempts of a `DEAD` entry count
    /// from 0 again.
    #[graphql(guard = "RETRY")]
    async fn retry_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Selection of the entries.")] input: RetryOutboxInput,
    ) -> Result<Option<RetryOutboxPayload>> {
        audited(ctx, None::<String>, retry(ctx, input)).await.map(Some)
    }

    /// Deletes `DEAD` entries. Their messages are never delivered.
    #[graphql(guard = "RETRY")]
    async fn discard_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Selection of the entries.")] input: DiscardOutboxInput,
    ) -> Result<Option<DiscardOutboxPayload>> {
        audited(ctx, None::<String>, discard(ctx, input)).await.map(Some)
    }
}

async fn claim(ctx: &Context<'_>, input: ClaimOutboxInput) -> Result<ClaimOutboxPayload> {
    let claimed = match input.parse(ctx) {
        Ok(claim) => {
            let subject = caller(ctx)?.actor.map(|actor| actor.subject().to_owned());
            let claim = Claim { claimant: claim.claimant.or(subject), ..claim };
            ctx.data::<Services>()?.outbox.claim(claim, &scope(ctx)?).await
        }
        Err(rejection) => Err(rejection.into()),
    };
    let (claimed, user_errors) = result_or_user_error(claimed)?;
    let claimed = claimed.unwrap_or_default();
    let claims = claimed.rows.into_iter().map(OutboxClaim).collect();
    Ok(ClaimOutboxPayload { claims, unavailable_shards: claimed.unavailable, user_errors })
}

async fn mark_published(ctx: &Context<'_>, input: MarkOutboxPublishedInput) -> Result<MarkOutboxPublishedPayload> {
    let outbox = &ctx.data::<Services>()?.outbox;
    let given = checked(outbox, input.parse(), "claims", |claim| claim.id);
    let (outcome, user_errors) = result_or_user_error(outbox.mark_published(&valid(&given), &scope(ctx)?).await)?;
    let Some(outcome) = outcome else {
        return Ok(MarkOutboxPublishedPayload { published: 0, results: Vec::new(), user_errors });
    };
    let outcome_of = |claim: ClaimRef| match outcome.failed.get(&claim.id.shard) {
        Some(error) => Err(error.clone()),
        None if outcome.stale.contains(&claim) => Err(ServiceError::Rejected(stale())),
        None => Ok(()),
    };
    let result = |(index, GivenItem { id, item }): (usize, GivenItem<ClaimRef>)| MarkOutboxPublishedResult {
        index: to_graphql_int(index),
        id,
        user_errors: errors_at("claims", index, item.map_err(ServiceError::from).and_then(outcome_of).err()),
    };
    let results = given.into_iter().enumerate().map(result).collect();
    Ok(MarkOutboxPublishedPayload { published: to_graphql_int(outcome.published), results, user_errors })
}

async fn renew(ctx: &Context<'_>, input: RenewOutboxLeasesInput) -> Result<RenewOutboxLeasesPayload> {
    let (outbox, lease_seconds) = (&ctx.data::<Services>()?.outbox, input.lease_seconds);
    let given = checked(outbox, input.parse(), "claims", |claim| claim.id);
    let renewed = outbox.renew_leases(&valid(&given), lease_seconds, &scope(ctx)?).await;
    let (renewed, user_errors) = result_or_user_error(renewed)?;
    let Some(renewed) = renewed else {
        return Ok(RenewOutboxLeasesPayload { results: Vec::new(), user_errors });
    };
    let result = |(index, GivenItem { id, item }): (usize, GivenItem<ClaimRef>)| {
        let outcome = item.map_err(ServiceError::from).and_then(|claim| outcome_of(&renewed, claim));
        let (lease_expires_at, error) = parts(outcome);
        let user_errors = errors_at("claims", index, error);
        RenewOutboxLeasesResult { index: to_graphql_int(index), id, lease_expires_at, user_errors }
    };
    let results = given.into_iter().enumerate().map(result).collect();
    Ok(RenewOutboxLeasesPayload { results, user_errors })
}

async fn mark_failed(ctx: &Context<'_>, input: MarkOutboxFailedInput) -> Result<MarkOutboxFailedPayload> {
    let (outbox, max_delay) = (&ctx.data::<Services>()?.outbox, input.max_delay_seconds);
    let given = checked(outbox, input.parse(), "failures", |failure| failure.claim.id);
    let marked = outbox.mark_failed(&valid(&given), max_delay, &scope(ctx)?).await;
    let (marked, user_errors) = result_or_user_error(marked)?;
    let Some(marked) = marked else {
        return Ok(MarkOutboxFailedPayload { results: Vec::new(), user_errors });
    };
    let result = |(index, GivenItem { id, item }): (usize, GivenItem<FailedDelivery>)| {
        let outcome = item.map_err(ServiceError::from).and_then(|failure| outcome_of(&marked, failure.claim));
        let (row, error) = parts(outcome);
        MarkOutboxFailedResult {
            index: to_graphql_int(index),
            id,
            retry_in_seconds: row.and_then(|row| row.retry_in),
            dead: row.is_some_and(|row| row.retry_in.is_none()),
            user_errors: errors_at("failures", index, error),
        }
    };
    let results = given.into_iter().enumerate().map(result).collect();
    Ok(MarkOutboxFailedPayload { results, user_errors })
}

/// Refuses the items whose shard does not exist.
fn checked<T>(
    outbox: &Outbox,
    given: Vec<GivenItem<T>>,
    list: &str,
    id_of: impl Fn(&T) -> OutboxId,
) -> Vec<GivenItem<T>> {
    let check = |(index, GivenItem { id, item }): (usize, GivenItem<T>)| {
        let known = |item: T| outbox.check_id(&format!("{list}.{index}.id"), id_of(&item)).map(|()| item);
        GivenItem { id, item: item.and_then(known) }
    };
    given.into_iter().enumerate().map(check).collect()
}

/// Returns the items that were not refused.
fn valid<T: Clone>(given: &[GivenItem<T>]) -> Vec<T> {
    given.iter().filter_map(|given| given.item.as_ref().ok().cloned()).collect()
}

/// Returns the outcome of a claim, or the reason that it does not hold its entry.
fn outcome_of<T: Copy>(settled: &Settled<T>, claim: ClaimRef) -> std::result::Result<T, ServiceError> {
    match (settled.outcomes.get(&claim), settled.failed.get(&claim.id.shard)) {
        (Some(outcome), _) => Ok(*outcome),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => Err(stale().into()),
    }
}

fn parts<T>(outcome: std::result::Result<T, ServiceError>) -> (Option<T>, Option<ServiceError>) {
    match outcome {
        Ok(done) => (Some(done), None),
        Err(error) => (None, Some(error)),
    }
}

fn stale() -> Rejection {
    let message =
        "this lease no longer holds the row: it has expired, the row is settled, or another caller has claimed it";
    Rejection::new(RejectionCode::StaleLease, "lease", message)
}

/// Returns the user errors of an item. The field of a stale lease gets the path of its item.
fn errors_at(list: &str, index: usize, error: Option<ServiceError>) -> Vec<UserError> {
    let mut errors: Vec<UserError> = error.map(item_error).into_iter().collect();
    for error in errors.iter_mut().filter(|error| error.code == RejectionCode::StaleLease) {
        error.field = Some(vec![list.to_owned(), index.to_string(), "lease".to_owned()]);
    }
    errors
}

async fn retry(ctx: &Context<'_>, input: RetryOutboxInput) -> Result<RetryOutboxPayload> {
    let (outbox, scope) = (&ctx.data::<Services>()?.outbox, scope(ctx)?);
    let retry = async |filter| outbox.retry(&filter, input.dry_run, &scope).await;
    let BulkResult { matched, rows: retried, unavailable_shards, user_errors } =
        change(ctx, input.select, retry).await?;
    Ok(RetryOutboxPayload { matched, retried, unavailable_shards, user_errors })
}

async fn discard(ctx: &Context<'_>, input: DiscardOutboxInput) -> Result<DiscardOutboxPayload> {
    let (outbox, scope) = (&ctx.data::<Services>()?.outbox, scope(ctx)?);
    let discard = async |filter| outbox.discard(&filter, input.dry_run, &scope).await;
    let BulkResult { matched, rows: discarded, unavailable_shards, user_errors } =
        change(ctx, input.select, discard).await?;
    Ok(DiscardOutboxPayload { matched, discarded, unavailable_shards, user_errors })
}

/// Result of a change of the selected entries.
struct BulkResult {
    matched: i32,
    rows: i32,
    unavailable_shards: Vec<u16>,
    user_errors: Vec<UserError>,
}

/// Checks the selector and changes the selected entries.
async fn change(
    ctx: &Context<'_>,
    select: OutboxSelector,
    apply: impl AsyncFnOnce(storage::OutboxFilter) -> Result<BulkChange, ServiceError>,
) -> Result<BulkResult> {
    let changed = match select.parse(ctx) {
        Ok(filter) => apply(filter).await,
        Err(rejection) => Err(rejection.into()),
    };
    let (outcome, user_errors) = result_or_user_error(changed)?;
    let BulkChange { matched, changed, unavailable } = outcome.unwrap_or_default();
    Ok(BulkResult {
        matched: to_graphql_int(matched),
        rows: to_graphql_int(changed),
        unavailable_shards: unavailable,
        user_errors,
    })
}

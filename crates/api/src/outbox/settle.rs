//! Settlement of claimed entries: each item of a request has its own result.

use async_graphql::{Context, ID, Result};

use super::inputs::{MarkOutboxFailedInput, OutboxClaimRef, RenewOutboxLeasesInput, given_claims};
use super::payloads::{
    MarkOutboxFailedPayload, MarkOutboxFailedResult, MarkOutboxPublishedPayload, MarkOutboxPublishedResult, NamedEntry,
    RenewOutboxLeasesPayload, RenewOutboxLeasesResult,
};
use crate::access::scope;
use crate::context::Services;
use crate::errors::{UserError, item_error, result_or_user_error};
use crate::scalars::{GivenItem, Time, to_graphql_int};
use noetl_domain::outbox::OutboxId;
use noetl_domain::tenant::Scope;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};
use noetl_use_cases::outbox::{ClaimRef, FailedDelivery, Outbox, Settled};

/// Reasons that a lease does not mark an entry.
const NOT_MARKED: &str = "this lease does not hold the entry: it was settled, another caller has claimed it since, or it \
                          does not exist";
/// Reasons that a lease is not extended.
const NOT_EXTENDED: &str = "this lease has expired, or it does not hold the entry: it was settled, another caller has \
                            claimed it since, or it does not exist";

type Outcome<T> = std::result::Result<T, ServiceError>;

/// Carries out `markOutboxPublished`.
pub(super) async fn mark_published(
    ctx: &Context<'_>,
    claims: Vec<OutboxClaimRef>,
) -> Result<MarkOutboxPublishedPayload> {
    let (outbox, scope) = (&ctx.data::<Services>()?.outbox, scope(ctx)?);
    let marked = async {
        let given = checked(&**outbox, given_claims(claims)?, "claims", |claim| claim.id);
        let marked = outbox.mark_published(&valid(&given), &scope).await?;
        Ok((given, marked))
    };
    let (marked, user_errors) = result_or_user_error(marked.await)?;
    let Some((given, marked)) = marked else {
        return Ok(MarkOutboxPublishedPayload { published: 0, results: Vec::new(), user_errors });
    };
    let outcome_of = |claim: ClaimRef| match marked.failed.get(&claim.id.shard) {
        Some(error) => Err(error.clone()),
        None if marked.stale.contains(&claim) => Err(stale(NOT_MARKED)),
        None => Ok(()),
    };
    let result = |(index, GivenItem { id, item }): (usize, GivenItem<ClaimRef>)| {
        let entry = item.as_ref().ok().map(|claim| claim.id);
        let outcome = item.map_err(ServiceError::from).and_then(outcome_of);
        let user_errors = errors_at("claims", index, outcome.err());
        MarkOutboxPublishedResult { index: to_graphql_int(index), named: named(id, entry, &user_errors), user_errors }
    };
    let results = given.into_iter().enumerate().map(result).collect();
    Ok(MarkOutboxPublishedPayload { published: to_graphql_int(marked.published), results, user_errors })
}

/// Marks the entry of one claim as published. The error of a stale claim names the field `claim`.
pub async fn mark_one_published(
    services: &Services,
    claim: ClaimRef,
    scope: &Scope,
) -> std::result::Result<(), ServiceError> {
    let marked = services.outbox.mark_published(&[claim], scope).await?;
    match marked.failed.into_values().next() {
        Some(error) => Err(error),
        None if marked.stale.is_empty() => Ok(()),
        None => Err(Rejection::new(RejectionCode::StaleLease, "claim", NOT_MARKED).into()),
    }
}

/// Carries out `renewOutboxLeases`.
pub(super) async fn renew(ctx: &Context<'_>, input: RenewOutboxLeasesInput) -> Result<RenewOutboxLeasesPayload> {
    let (outbox, scope) = (&ctx.data::<Services>()?.outbox, scope(ctx)?);
    let lease_seconds = input.lease_seconds();
    let renewed = async {
        let given = checked(&**outbox, given_claims(input.claims)?, "claims", |claim| claim.id);
        let renewed = outbox.renew_leases(&valid(&given), lease_seconds, &scope).await?;
        Ok((given, renewed))
    };
    let (renewed, user_errors) = result_or_user_error(renewed.await)?;
    let Some((given, renewed)) = renewed else {
        return Ok(RenewOutboxLeasesPayload { results: Vec::new(), user_errors });
    };
    let result = |(index, GivenItem { id, item }): (usize, GivenItem<ClaimRef>)| {
        let entry = item.as_ref().ok().map(|claim| claim.id);
        let outcome = item.map_err(ServiceError::from).and_then(|claim| outcome_of(&renewed, claim, NOT_EXTENDED));
        let (lease_expires_at, error) = parts(outcome);
        let user_errors = errors_at("claims", index, error);
        let named = named(id, entry, &user_errors);
        RenewOutboxLeasesResult {
            index: to_graphql_int(index),
            named,
            lease_expires_at: lease_expires_at.map(Time),
            user_errors,
        }
    };
    let results = given.into_iter().enumerate().map(result).collect();
    Ok(RenewOutboxLeasesPayload { results, user_errors })
}

/// Carries out `markOutboxFailed`.
pub(super) async fn mark_failed(ctx: &Context<'_>, input: MarkOutboxFailedInput) -> Result<MarkOutboxFailedPayload> {
    let (outbox, scope) = (&ctx.data::<Services>()?.outbox, scope(ctx)?);
    let max_delay = input.max_delay_seconds();
    let marked = async {
        let given = checked(&**outbox, input.parse()?, "failures", |failure| failure.claim.id);
        let marked = outbox.mark_failed(&valid(&given), max_delay, &scope).await?;
        Ok((given, marked))
    };
    let (marked, user_errors) = result_or_user_error(marked.await)?;
    let Some((given, marked)) = marked else {
        return Ok(MarkOutboxFailedPayload { results: Vec::new(), user_errors });
    };
    let result = |(index, GivenItem { id, item }): (usize, GivenItem<FailedDelivery>)| {
        let entry = item.as_ref().ok().map(|failure| failure.claim.id);
        let item = item.map_err(ServiceError::from);
        let (row, error) = parts(item.and_then(|failure| outcome_of(&marked, failure.claim, NOT_MARKED)));
        let user_errors = errors_at("failures", index, error);
        MarkOutboxFailedResult {
            index: to_graphql_int(index),
            named: named(id, entry, &user_errors),
            retry_in_seconds: row.and_then(|row| row.retry_in),
            dead: row.is_some_and(|row| row.retry_in.is_none()),
            user_errors,
        }
    };
    let results = given.into_iter().enumerate().map(result).collect();
    Ok(MarkOutboxFailedPayload { results, user_errors })
}

/// Refuses the items whose shard does not exist.
fn checked<T>(
    outbox: &dyn Outbox,
    given: Vec<GivenItem<T>>,
    list: &str,
    id_of: impl Fn(&T) -> OutboxId,
) -> Vec<GivenItem<T>> {
    let check = |(index, GivenItem { id, item }): (usize, GivenItem<T>)| {
        let known = |item: T| outbox.check_id(&format!("{list}.{index}.entryId"), id_of(&item)).map(|()| item);
        GivenItem { id, item: item.and_then(known) }
    };
    given.into_iter().enumerate().map(check).collect()
}

/// Returns the items that were not refused.
fn valid<T: Clone>(given: &[GivenItem<T>]) -> Vec<T> {
    given.iter().filter_map(|given| given.item.as_ref().ok().cloned()).collect()
}

/// Returns the entry of an item for its result. `id` is its id as the caller gave it.
fn named(id: ID, entry: Option<OutboxId>, user_errors: &[UserError]) -> NamedEntry {
    match entry {
        None => NamedEntry::Invalid(id),
        Some(entry) if user_errors.iter().any(|error| error.retryable) => NamedEntry::Unavailable(entry),
        Some(entry) => NamedEntry::Known(entry),
    }
}

/// Returns the outcome of a claim, or the reasons that it does not hold its entry.
fn outcome_of<T: Copy>(settled: &Settled<T>, claim: ClaimRef, reasons: &str) -> Outcome<T> {
    match (settled.outcomes.get(&claim), settled.failed.get(&claim.id.shard)) {
        (Some(outcome), _) => Ok(*outcome),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => Err(stale(reasons)),
    }
}

fn parts<T>(outcome: Outcome<T>) -> (Option<T>, Option<ServiceError>) {
    match outcome {
        Ok(done) => (Some(done), None),
        Err(error) => (None, Some(error)),
    }
}

fn stale(reasons: &str) -> ServiceError {
    Rejection::new(RejectionCode::StaleLease, "lease", reasons).into()
}

/// Returns the user errors of an item. The field of a stale lease gets the path of its item.
fn errors_at(list: &str, index: usize, error: Option<ServiceError>) -> Vec<UserError> {
    let mut errors: Vec<UserError> = error.map(item_error).into_iter().collect();
    for error in errors.iter_mut().filter(|error| error.code == RejectionCode::StaleLease) {
        error.field = Some(vec![list.to_owned(), index.to_string(), "lease".to_owned()]);
    }
    errors
}

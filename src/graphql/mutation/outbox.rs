//! Mutations of the outbox.

use async_graphql::{Context, Result};

use super::payloads::{ClaimOutboxPayload, MarkOutboxFailedPayload, MarkOutboxPublishedPayload, RetryOutboxPayload};
use super::split;
use crate::graphql::errors::item_error;
use crate::graphql::inputs::outbox::{
    ClaimOutboxInput, MarkOutboxFailedInput, MarkOutboxPublishedInput, RetryOutboxInput,
};
use crate::graphql::schema::Services;
use crate::graphql::types::outbox::{OutboxClaim, count};

pub(super) async fn claim(ctx: &Context<'_>, input: ClaimOutboxInput) -> Result<ClaimOutboxPayload> {
    let (claimed, user_errors) = split(ctx.data::<Services>()?.outbox.claim(input.into()).await)?;
    let claimed = claimed.unwrap_or_default();
    let claims = claimed.rows.into_iter().map(OutboxClaim).collect();
    Ok(ClaimOutboxPayload { claims, unavailable_shards: claimed.unavailable, user_errors })
}

pub(super) async fn published(
    ctx: &Context<'_>,
    input: MarkOutboxPublishedInput,
) -> Result<MarkOutboxPublishedPayload> {
    let marked = match input.parse() {
        Ok(claims) => ctx.data::<Services>()?.outbox.mark_published(&claims).await,
        Err(rejection) => Err(rejection.into()),
    };
    let (outcome, mut user_errors) = split(marked)?;
    let outcome = outcome.unwrap_or_default();
    user_errors.extend(outcome.failed.into_values().map(item_error));
    let stale = outcome.stale.iter().map(|id| id.to_string().into()).collect();
    Ok(MarkOutboxPublishedPayload { published: count(outcome.published), stale, user_errors })
}

pub(super) async fn failed(ctx: &Context<'_>, input: MarkOutboxFailedInput) -> Result<MarkOutboxFailedPayload> {
    let outbox = &ctx.data::<Services>()?.outbox;
    let marked = match input.claim() {
        Ok(claim) => outbox.mark_failed(claim, &input.error, input.max_delay_seconds).await,
        Err(rejection) => Err(rejection.into()),
    };
    let (retry_in_seconds, user_errors) = split(marked)?;
    Ok(MarkOutboxFailedPayload { retry_in_seconds, user_errors })
}

pub(super) async fn retry(ctx: &Context<'_>, input: RetryOutboxInput) -> Result<RetryOutboxPayload> {
    let retried = match input.filter.parse("filter") {
        Ok(filter) => ctx.data::<Services>()?.outbox.retry(&filter, input.dry_run).await,
        Err(rejection) => Err(rejection.into()),
    };
    let (outcome, user_errors) = split(retried)?;
    let outcome = outcome.unwrap_or_default();
    Ok(RetryOutboxPayload {
        matched: count(outcome.matched),
        retried: count(outcome.retried),
        unavailable_shards: outcome.unavailable,
        user_errors,
    })
}

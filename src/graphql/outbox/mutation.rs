//! Mutations of the outbox.

use async_graphql::{Context, Object, Result};

use super::inputs::{
    ClaimOutboxInput, DiscardOutboxInput, MarkOutboxFailedInput, MarkOutboxPublishedInput, OutboxSelector,
    RetryOutboxInput,
};
use super::payloads::{
    ClaimOutboxPayload, DiscardOutboxPayload, MarkOutboxFailedPayload, MarkOutboxPublishedPayload, RetryOutboxPayload,
};
use super::types::OutboxClaim;
use crate::graphql::access::{OUTBOX, RETRY, scope};
use crate::graphql::audit::audited;
use crate::graphql::context::Services;
use crate::graphql::errors::{UserError, item_error, result_or_user_error};
use crate::graphql::scalars::to_graphql_int;
use crate::service::error::ServiceError;
use crate::service::outbox::BulkChange;
use noetl_storage::outbox as storage;

/// Mutations of the outbox.
#[derive(Debug, Default)]
pub struct OutboxMutation;

#[Object]
impl OutboxMutation {
    /// Claims outbox rows for delivery. The rows of one execution are claimed in outbox order, and are never in flight
    /// with two lease holders.
    #[graphql(guard = "OUTBOX")]
    async fn claim_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Limits of the claim.")] input: ClaimOutboxInput,
    ) -> Result<ClaimOutboxPayload> {
        audited(ctx, None::<String>, claim(ctx, input)).await
    }

    /// Marks claimed rows as delivered. The mutation is idempotent.
    #[graphql(guard = "OUTBOX")]
    async fn mark_outbox_published(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Claimed rows and their leases.")] input: MarkOutboxPublishedInput,
    ) -> Result<MarkOutboxPublishedPayload> {
        audited(ctx, input.rows(), mark_published(ctx, input)).await
    }

    /// Marks a claimed row as not delivered. The row is claimable again after 1, 2, 4, … 256 seconds; the delay doubles
    /// with each attempt, up to `maxDelaySeconds`. After the last attempt that its claim allowed, the row is `DEAD`.
    #[graphql(guard = "OUTBOX")]
    async fn mark_outbox_failed(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Claimed row, its lease and the error.")] input: MarkOutboxFailedInput,
    ) -> Result<MarkOutboxFailedPayload> {
        audited(ctx, [input.id.to_string()], mark_failed(ctx, input)).await
    }

    /// Makes failed rows that are not due yet, and `DEAD` rows, claimable immediately. The attempts of a `DEAD` row count
    /// from 0 again.
    #[graphql(guard = "RETRY")]
    async fn retry_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Selection of the rows.")] input: RetryOutboxInput,
    ) -> Result<RetryOutboxPayload> {
        audited(ctx, None::<String>, retry(ctx, input)).await
    }

    /// Deletes `DEAD` rows. Their messages are never delivered.
    #[graphql(guard = "RETRY")]
    async fn discard_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Selection of the rows.")] input: DiscardOutboxInput,
    ) -> Result<DiscardOutboxPayload> {
        audited(ctx, None::<String>, discard(ctx, input)).await
    }
}

async fn claim(ctx: &Context<'_>, input: ClaimOutboxInput) -> Result<ClaimOutboxPayload> {
    let claimed = ctx.data::<Services>()?.outbox.claim(input.into(), &scope(ctx)?).await;
    let (claimed, user_errors) = result_or_user_error(claimed)?;
    let claimed = claimed.unwrap_or_default();
    let claims = claimed.rows.into_iter().map(OutboxClaim).collect();
    Ok(ClaimOutboxPayload { claims, unavailable_shards: claimed.unavailable, user_errors })
}

async fn mark_published(ctx: &Context<'_>, input: MarkOutboxPublishedInput) -> Result<MarkOutboxPublishedPayload> {
    let marked = match input.parse() {
        Ok(claims) => ctx.data::<Services>()?.outbox.mark_published(&claims, &scope(ctx)?).await,
        Err(rejection) => Err(rejection.into()),
    };
    let (outcome, mut user_errors) = result_or_user_error(marked)?;
    let outcome = outcome.unwrap_or_default();
    user_errors.extend(outcome.failed.into_values().map(item_error));
    let stale = outcome.stale.iter().map(|id| id.to_string().into()).collect();
    Ok(MarkOutboxPublishedPayload { published: to_graphql_int(outcome.published), stale, user_errors })
}

async fn mark_failed(ctx: &Context<'_>, input: MarkOutboxFailedInput) -> Result<MarkOutboxFailedPayload> {
    let outbox = &ctx.data::<Services>()?.outbox;
    let marked = match input.claim() {
        Ok(claim) => outbox.mark_failed(claim, &input.error, input.max_delay_seconds, &scope(ctx)?).await,
        Err(rejection) => Err(rejection.into()),
    };
    let (row, user_errors) = result_or_user_error(marked)?;
    let retry_in_seconds = row.and_then(|row| row.retry_in);
    let dead = row.is_some_and(|row| row.retry_in.is_none());
    Ok(MarkOutboxFailedPayload { retry_in_seconds, dead, user_errors })
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

/// Result of a change of the selected rows.
struct BulkResult {
    matched: i32,
    rows: i32,
    unavailable_shards: Vec<u16>,
    user_errors: Vec<UserError>,
}

/// Checks the selector and changes the selected rows.
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

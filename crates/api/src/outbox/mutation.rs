//! Mutations of the outbox.

use async_graphql::{Context, Object, Result};

use super::inputs::{
    ClaimOutboxInput, DiscardOutboxInput, MarkOutboxFailedInput, MarkOutboxPublishedInput, OutboxSelector,
    RenewOutboxLeasesInput, RetryOutboxInput, entry_ids,
};
use super::payloads::{
    ClaimOutboxPayload, DiscardOutboxPayload, MarkOutboxFailedPayload, MarkOutboxPublishedPayload,
    RenewOutboxLeasesPayload, RetryOutboxPayload,
};
use super::settle::{mark_failed, mark_published, renew};
use super::types::OutboxClaim;
use crate::access::{OUTBOX, RETRY, caller, scope};
use crate::audit::audited;
use crate::context::Services;
use crate::errors::{UserError, result_or_user_error};
use crate::scalars::to_graphql_int;
use noetl_storage::outbox as storage;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::outbox::{BulkChange, Claim, RowChange};

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
        audited(ctx, entry_ids(&input.claims), mark_published(ctx, input.claims)).await.map(Some)
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
        audited(ctx, entry_ids(&input.claims), renew(ctx, input)).await.map(Some)
    }

    /// Makes failed entries that are not due yet, and `DEAD` entries, claimable immediately. The attempts of a `DEAD` entry count
    /// from 0 again. The log of an entry's execution gets an event `outbox.retried`.
    #[graphql(guard = "RETRY")]
    async fn retry_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Selection of the entries.")] input: RetryOutboxInput,
    ) -> Result<Option<RetryOutboxPayload>> {
        audited(ctx, None::<String>, retry(ctx, input)).await.map(Some)
    }

    /// Deletes `DEAD` entries. Their messages are never delivered. The log of an entry's execution gets an event
    /// `outbox.discarded`.
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

async fn retry(ctx: &Context<'_>, input: RetryOutboxInput) -> Result<RetryOutboxPayload> {
    let (outbox, caller) = (&ctx.data::<Services>()?.outbox, caller(ctx)?);
    let manner = RowChange { reason: input.reason.as_deref(), dry_run: input.dry_run, caller: &caller };
    let retry = async |filter| outbox.retry(&filter, manner).await;
    let BulkResult { matched, rows: retried, unavailable_shards, user_errors } =
        change(ctx, input.select, retry).await?;
    Ok(RetryOutboxPayload { matched, retried, unavailable_shards, user_errors })
}

async fn discard(ctx: &Context<'_>, input: DiscardOutboxInput) -> Result<DiscardOutboxPayload> {
    let (outbox, caller) = (&ctx.data::<Services>()?.outbox, caller(ctx)?);
    let manner = RowChange { reason: input.reason.as_deref(), dry_run: input.dry_run, caller: &caller };
    let discard = async |filter| outbox.discard(&filter, manner).await;
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

/// Checks the selector and changes the selected entries. A selected id without an entry does not stop the others.
async fn change(
    ctx: &Context<'_>,
    select: OutboxSelector,
    apply: impl AsyncFnOnce(storage::OutboxFilter) -> Result<BulkChange, ServiceError>,
) -> Result<BulkResult> {
    let (outbox, scope) = (&ctx.data::<Services>()?.outbox, scope(ctx)?);
    let changed = async {
        let selection = select.parse(ctx)?;
        let unknown = outbox.unknown_ids("select.ids", &selection.ids, &scope).await?;
        Ok((apply(selection.filter).await?, unknown))
    };
    let (outcome, mut user_errors) = result_or_user_error(changed.await)?;
    let (BulkChange { matched, changed, unavailable }, unknown) = outcome.unwrap_or_default();
    user_errors.extend(unknown.into_iter().map(UserError::from));
    Ok(BulkResult {
        matched: to_graphql_int(matched),
        rows: to_graphql_int(changed),
        unavailable_shards: unavailable,
        user_errors,
    })
}

//! The root of all mutations. What a caller can mend comes back as `userErrors`, beside no result.

mod advance;
mod audit;
mod outbox;
pub mod outcome;
mod payloads;
mod project_events;

use async_graphql::{Context, Object, Result};

use super::access::{
    ADVANCE, CANCEL, CATALOG, EXECUTE, LIFECYCLE, MOVE, OUTBOX, PROJECT, RETRY, actor, moves_only_own,
};
use super::errors::{UserError, user_error};
use super::inputs::outbox::{ClaimOutboxInput, MarkOutboxFailedInput, MarkOutboxPublishedInput, RetryOutboxInput};
use super::inputs::{
    AdvanceProjectionsInput, BulkTransitionInput, CancelExecutionInput, ExecuteBatchInput, ExecuteInput,
    RegisterCatalogEntryInput, RegisterSubscriptionInput, TransitionInput,
};
use super::scalars::{parse_id, parse_ids};
use super::schema::Services;
use super::types::catalog::CatalogEntry;
use super::types::execution::Execution;
use super::types::subscription::{SourceSubscription, SubscriptionAction};
use crate::service::error::ServiceError;
use advance::AdvanceProjectionsPayload;
use audit::audited;
use payloads::{
    BulkTransitionPayload, BulkTransitionResult, CancelExecutionPayload, ClaimOutboxPayload, ExecuteBatchPayload,
    ExecutePayload, MarkOutboxFailedPayload, MarkOutboxPublishedPayload, RegisterCatalogEntryPayload,
    RetryOutboxPayload, SubscriptionPayload,
};
use project_events::{ProjectEventsInput, ProjectEventsPayload};

/// The root of all mutations.
#[derive(Debug)]
pub struct Mutation;

/// The root of all mutations.
#[Object]
impl Mutation {
    /// Adds the next version of a catalog path.
    #[graphql(guard = "CATALOG")]
    async fn register_catalog_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What to register.")] input: RegisterCatalogEntryInput,
    ) -> Result<RegisterCatalogEntryPayload> {
        audited(ctx, [input.path.clone()], async {
            let registered = ctx.data::<Services>()?.catalog.register(input.into()).await;
            let (catalog_entry, user_errors) = split(registered.map(CatalogEntry))?;
            Ok(RegisterCatalogEntryPayload { catalog_entry, user_errors })
        })
        .await
    }

    /// Registers a source subscription, or finds the path's live one: registering again is harmless.
    #[graphql(guard = "MOVE")]
    async fn register_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which path.")] input: RegisterSubscriptionInput,
    ) -> Result<SubscriptionPayload> {
        audited(ctx, [input.path.clone()], async {
            let registered = ctx.data::<Services>()?.subscriptions.register(&input.path, actor(ctx)?.as_ref()).await;
            let (subscription, user_errors) = split(registered.map(SourceSubscription))?;
            Ok(SubscriptionPayload { subscription, user_errors })
        })
        .await
    }

    /// Lets a source subscription take messages.
    #[graphql(guard = "MOVE")]
    async fn activate_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which one.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Activate).await
    }

    /// Stops a source subscription for a while.
    #[graphql(guard = "MOVE")]
    async fn pause_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which one.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Pause).await
    }

    /// Lets a paused source subscription go on.
    #[graphql(guard = "MOVE")]
    async fn resume_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which one.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Resume).await
    }

    /// Lets a source subscription finish what it took and take no more.
    #[graphql(guard = "MOVE")]
    async fn drain_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which one.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Drain).await
    }

    /// Ends a source subscription and frees its path.
    #[graphql(guard = "MOVE")]
    async fn deactivate_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which one.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Deactivate).await
    }

    /// Carries out a transition of every matching source subscription, each on its own.
    #[graphql(guard = "LIFECYCLE")]
    async fn transition_subscriptions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What to do, and to which.")] input: BulkTransitionInput,
    ) -> Result<BulkTransitionPayload> {
        audited(ctx, None::<String>, transition_all(ctx, input)).await
    }

    /// Starts an execution, or finds the one that the dedup key belongs to.
    #[graphql(guard = "EXECUTE")]
    async fn execute(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What to run.")] input: ExecuteInput,
    ) -> Result<ExecutePayload> {
        let about = input.about().map(str::to_owned);
        audited(ctx, about, async {
            let executed = match input.parse() {
                Ok(request) => ctx.data::<Services>()?.executions.execute(request, actor(ctx)?.as_ref()).await,
                Err(rejection) => Err(rejection.into()),
            };
            ExecutePayload::new(ctx, executed).await
        })
        .await
    }

    /// Starts executions, each on its own: result i belongs to request i.
    #[graphql(guard = "EXECUTE")]
    async fn execute_batch(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What to run.")] input: ExecuteBatchInput,
    ) -> Result<ExecuteBatchPayload> {
        audited(ctx, None::<String>, async {
            let requests = input.requests.into_iter().map(ExecuteInput::parse).collect();
            let answers = ctx.data::<Services>()?.executions.execute_batch(requests, actor(ctx)?.as_ref()).await;
            let (answers, user_errors) = split(answers)?;
            let payloads = answers.unwrap_or_default().into_iter().map(|answer| ExecutePayload::new(ctx, answer));
            let results = futures::future::try_join_all(payloads).await?;
            Ok(ExecuteBatchPayload { results, user_errors })
        })
        .await
    }

    /// Ends an execution that has not ended.
    #[graphql(guard = "CANCEL")]
    async fn cancel_execution(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which one.")] input: CancelExecutionInput,
    ) -> Result<CancelExecutionPayload> {
        audited(ctx, [input.id.0.clone()], cancel(ctx, input)).await
    }

    /// Stores executions' states as of now, each on its own, so that reading them has less to fold.
    #[graphql(guard = "ADVANCE")]
    async fn advance_projections(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which ones.")] input: AdvanceProjectionsInput,
    ) -> Result<AdvanceProjectionsPayload> {
        let about: Vec<String> = input.execution_ids.iter().map(|id| id.0.clone()).collect();
        audited(ctx, about, async {
            let advances = match parse_ids("executionIds", &input.execution_ids) {
                Ok(ids) => ctx.data::<Services>()?.projections.advance(ids).await,
                Err(rejection) => Err(rejection.into()),
            };
            let (advances, user_errors) = split(advances)?;
            Ok(AdvanceProjectionsPayload::new(advances.unwrap_or_default(), user_errors))
        })
        .await
    }

    /// Takes in events that workers made. Sending a batch again is harmless: what is known is skipped and counted.
    #[graphql(guard = "PROJECT")]
    async fn project_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "What happened.")] input: ProjectEventsInput,
    ) -> Result<ProjectEventsPayload> {
        audited(ctx, input.executions(), async {
            let (ids, drafts) = input.into_parts();
            let projected = ctx.data::<Services>()?.ingest.project(drafts, actor(ctx)?.as_ref()).await;
            ProjectEventsPayload::new(&ids, projected)
        })
        .await
    }

    /// Claims outbox rows for delivery. Rows of one execution come in their order, and are never in flight with two
    /// claimants.
    #[graphql(guard = "OUTBOX")]
    async fn claim_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, for how long.")] input: ClaimOutboxInput,
    ) -> Result<ClaimOutboxPayload> {
        audited(ctx, None::<String>, outbox::claim(ctx, input)).await
    }

    /// Marks claimed rows as delivered; doing so again is harmless.
    #[graphql(guard = "OUTBOX")]
    async fn mark_outbox_published(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which rows, under which leases.")] input: MarkOutboxPublishedInput,
    ) -> Result<MarkOutboxPublishedPayload> {
        audited(ctx, input.rows(), outbox::published(ctx, input)).await
    }

    /// Marks a claimed row as not delivered; it is due again after 1, 2, 4 … 256 seconds, by the number of its attempts.
    #[graphql(guard = "OUTBOX")]
    async fn mark_outbox_failed(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which row, under which lease, and why.")] input: MarkOutboxFailedInput,
    ) -> Result<MarkOutboxFailedPayload> {
        audited(ctx, [input.id.to_string()], outbox::failed(ctx, input)).await
    }

    /// Makes failed rows due at once that are backing off.
    #[graphql(guard = "RETRY")]
    async fn retry_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which ones.")] input: RetryOutboxInput,
    ) -> Result<RetryOutboxPayload> {
        audited(ctx, None::<String>, outbox::retry(ctx, input)).await
    }
}

async fn transition(
    ctx: &Context<'_>,
    input: TransitionInput,
    action: SubscriptionAction,
) -> Result<SubscriptionPayload> {
    audited(ctx, [input.id.0.clone()], async {
        let moved = match input.parse(action, actor(ctx)?, moves_only_own(ctx)?) {
            Ok(asked) => ctx.data::<Services>()?.subscriptions.transition(&asked).await,
            Err(rejection) => Err(rejection.into()),
        };
        let (subscription, user_errors) = split(moved.map(SourceSubscription))?;
        Ok(SubscriptionPayload { subscription, user_errors })
    })
    .await
}

async fn transition_all(ctx: &Context<'_>, input: BulkTransitionInput) -> Result<BulkTransitionPayload> {
    let (subscriptions, by) = (&ctx.data::<Services>()?.subscriptions, actor(ctx)?);
    let (action, reason) = (input.action.into(), input.reason.as_deref());
    let outcome = match input.filter.parse() {
        Ok(filter) => subscriptions.transition_all(action, &filter, reason, input.dry_run, by.as_ref()).await,
        Err(rejection) => Err(rejection.into()),
    };
    let (bulk, user_errors) = split(outcome)?;
    let Some(bulk) = bulk else {
        return Ok(BulkTransitionPayload { results: Vec::new(), unavailable_shards: Vec::new(), user_errors });
    };
    let results = bulk.items.into_iter().map(BulkTransitionResult::new).collect::<Result<_>>()?;
    Ok(BulkTransitionPayload { results, unavailable_shards: bulk.unavailable, user_errors })
}

async fn cancel(ctx: &Context<'_>, input: CancelExecutionInput) -> Result<CancelExecutionPayload> {
    let cancelled = match parse_id("id", &input.id) {
        Ok(id) => ctx.data::<Services>()?.executions.cancel(id, input.reason, actor(ctx)?.as_ref()).await.map(|()| id),
        Err(rejection) => Err(rejection.into()),
    };
    let (id, user_errors) = split(cancelled)?;
    let execution = match id {
        Some(id) => Execution::load(ctx, id).await?,
        None => None,
    };
    Ok(CancelExecutionPayload { execution, user_errors })
}

/// A result or the refusal, as a payload shows them; a fault is an error of the field.
fn split<T>(outcome: Result<T, ServiceError>) -> Result<(Option<T>, Vec<UserError>)> {
    match outcome {
        Ok(done) => Ok((Some(done), Vec::new())),
        Err(error) => Ok((None, vec![user_error(error)?])),
    }
}

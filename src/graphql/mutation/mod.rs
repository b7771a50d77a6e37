//! The root of all mutations. An error that the caller can correct is returned in `userErrors`, without a result.

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
        #[graphql(desc = "Catalog entry to register.")] input: RegisterCatalogEntryInput,
    ) -> Result<RegisterCatalogEntryPayload> {
        audited(ctx, [input.path.clone()], async {
            let registered = ctx.data::<Services>()?.catalog.register(input.into()).await;
            let (catalog_entry, user_errors) = split(registered.map(CatalogEntry))?;
            Ok(RegisterCatalogEntryPayload { catalog_entry, user_errors })
        })
        .await
    }

    /// Registers a source subscription, or returns the path's subscription that is not deactivated. The mutation is
    /// idempotent.
    #[graphql(guard = "MOVE")]
    async fn register_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Source subscription to register.")] input: RegisterSubscriptionInput,
    ) -> Result<SubscriptionPayload> {
        audited(ctx, [input.path.clone()], async {
            let registered = ctx.data::<Services>()?.subscriptions.register(&input.path, actor(ctx)?.as_ref()).await;
            let (subscription, user_errors) = split(registered.map(SourceSubscription))?;
            Ok(SubscriptionPayload { subscription, user_errors })
        })
        .await
    }

    /// Activates a source subscription: it starts to receive messages.
    #[graphql(guard = "MOVE")]
    async fn activate_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to activate.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Activate).await
    }

    /// Pauses a source subscription: it receives no messages until it is resumed or activated.
    #[graphql(guard = "MOVE")]
    async fn pause_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to pause.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Pause).await
    }

    /// Resumes a paused source subscription: it receives messages again.
    #[graphql(guard = "MOVE")]
    async fn resume_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to resume.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Resume).await
    }

    /// Drains a source subscription: it processes the received messages and receives no more.
    #[graphql(guard = "MOVE")]
    async fn drain_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to drain.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Drain).await
    }

    /// Deactivates a source subscription: it ends, and its path is free for another registration.
    #[graphql(guard = "MOVE")]
    async fn deactivate_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to deactivate.")] input: TransitionInput,
    ) -> Result<SubscriptionPayload> {
        transition(ctx, input, SubscriptionAction::Deactivate).await
    }

    /// Carries out a transition of all source subscriptions that match a filter. Each transition succeeds or fails
    /// independently.
    #[graphql(guard = "LIFECYCLE")]
    async fn transition_subscriptions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Action and filter.")] input: BulkTransitionInput,
    ) -> Result<BulkTransitionPayload> {
        audited(ctx, None::<String>, transition_all(ctx, input)).await
    }

    /// Starts an execution, or returns the execution that an earlier request with the same dedup key started.
    #[graphql(guard = "EXECUTE")]
    async fn execute(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Execution to start.")] input: ExecuteInput,
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

    /// Starts executions. Each request succeeds or fails independently; result i belongs to request i.
    #[graphql(guard = "EXECUTE")]
    async fn execute_batch(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Executions to start.")] input: ExecuteBatchInput,
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

    /// Cancels an execution that has not ended.
    #[graphql(guard = "CANCEL")]
    async fn cancel_execution(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Execution to cancel.")] input: CancelExecutionInput,
    ) -> Result<CancelExecutionPayload> {
        audited(ctx, [input.id.0.clone()], cancel(ctx, input)).await
    }

    /// Stores the current states of executions, so that a read of them folds fewer events. Each execution succeeds or
    /// fails independently.
    #[graphql(guard = "ADVANCE")]
    async fn advance_projections(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Executions whose projections are advanced.")] input: AdvanceProjectionsInput,
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

    /// Stores events of workers. The mutation is idempotent: events that are already stored are skipped and counted.
    #[graphql(guard = "PROJECT")]
    async fn project_events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Batch of events.")] input: ProjectEventsInput,
    ) -> Result<ProjectEventsPayload> {
        audited(ctx, input.executions(), async {
            let (ids, drafts) = input.into_parts();
            let projected = ctx.data::<Services>()?.ingest.project(drafts, actor(ctx)?.as_ref()).await;
            ProjectEventsPayload::new(&ids, projected)
        })
        .await
    }

    /// Claims outbox rows for delivery. The rows of one execution are claimed in outbox order, and are never in flight
    /// with two lease holders.
    #[graphql(guard = "OUTBOX")]
    async fn claim_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Limits of the claim.")] input: ClaimOutboxInput,
    ) -> Result<ClaimOutboxPayload> {
        audited(ctx, None::<String>, outbox::claim(ctx, input)).await
    }

    /// Marks claimed rows as delivered. The mutation is idempotent.
    #[graphql(guard = "OUTBOX")]
    async fn mark_outbox_published(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Claimed rows and their leases.")] input: MarkOutboxPublishedInput,
    ) -> Result<MarkOutboxPublishedPayload> {
        audited(ctx, input.rows(), outbox::published(ctx, input)).await
    }

    /// Marks a claimed row as not delivered. The row is claimable again after 1, 2, 4, … 256 seconds; the delay doubles
    /// with each attempt, up to `maxDelaySeconds`.
    #[graphql(guard = "OUTBOX")]
    async fn mark_outbox_failed(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Claimed row, its lease and the error.")] input: MarkOutboxFailedInput,
    ) -> Result<MarkOutboxFailedPayload> {
        audited(ctx, [input.id.to_string()], outbox::failed(ctx, input)).await
    }

    /// Makes failed rows that are not due yet claimable immediately.
    #[graphql(guard = "RETRY")]
    async fn retry_outbox(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Filter for the rows.")] input: RetryOutboxInput,
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

/// Returns the result or the user error for a payload, or a fault as an error of the field.
fn split<T>(outcome: Result<T, ServiceError>) -> Result<(Option<T>, Vec<UserError>)> {
    match outcome {
        Ok(done) => Ok((Some(done), Vec::new())),
        Err(error) => Ok((None, vec![user_error(error)?])),
    }
}

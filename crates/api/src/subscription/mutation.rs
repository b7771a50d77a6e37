//! Mutations of source subscriptions.

use async_graphql::{Context, Object, Result};

use super::inputs::{RegisterSubscriptionInput, SubscriptionTransitionInput, TransitionSubscriptionsInput};
use super::lifecycle::SubscriptionAction;
use super::payloads::{
    Changed, RegisterSubscriptionPayload, SubscriptionTransitionPayload, Target, TransitionSubscriptionsPayload,
    TransitionSubscriptionsResult,
};
use crate::access::{CHANGE_SUBSCRIPTION, LIFECYCLE, caller, changes_only_own};
use crate::audit::audited;
use crate::context::Services;
use crate::errors::result_or_user_error;
use crate::guards::WrittenInput;

/// Mutations of source subscriptions.
#[derive(Debug, Default)]
pub struct SourceSubscriptionMutation;

#[Object]
impl SourceSubscriptionMutation {
    /// Registers a source subscription, or returns the path's subscription that is not deactivated. The mutation is
    /// idempotent.
    #[graphql(guard = "CHANGE_SUBSCRIPTION")]
    async fn register_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Source subscription to register.")] input: RegisterSubscriptionInput,
    ) -> Result<Option<RegisterSubscriptionPayload>> {
        let registered = audited(ctx, [input.path.clone()], async {
            let subscriptions = &ctx.data::<Services>()?.subscriptions;
            let registered = subscriptions.register(&input.path, &input.tenancy(), &caller(ctx)?).await;
            Changed::new(Target::Path(input.path), registered)
        });
        Ok(Some(RegisterSubscriptionPayload { changed: registered.await? }))
    }

    /// Activates a source subscription: it starts to receive messages.
    #[graphql(guard = "CHANGE_SUBSCRIPTION")]
    async fn activate_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to activate.")] input: SubscriptionTransitionInput,
    ) -> Result<Option<SubscriptionTransitionPayload>> {
        transition(ctx, input, SubscriptionAction::Activate).await
    }

    /// Pauses a source subscription: it receives no messages until it is resumed or activated.
    #[graphql(guard = "CHANGE_SUBSCRIPTION")]
    async fn pause_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to pause.")] input: SubscriptionTransitionInput,
    ) -> Result<Option<SubscriptionTransitionPayload>> {
        transition(ctx, input, SubscriptionAction::Pause).await
    }

    /// Resumes a paused source subscription: it receives messages again.
    #[graphql(guard = "CHANGE_SUBSCRIPTION")]
    async fn resume_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to resume.")] input: SubscriptionTransitionInput,
    ) -> Result<Option<SubscriptionTransitionPayload>> {
        transition(ctx, input, SubscriptionAction::Resume).await
    }

    /// Drains a source subscription: it processes the received messages and receives no more.
    #[graphql(guard = "CHANGE_SUBSCRIPTION")]
    async fn drain_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to drain.")] input: SubscriptionTransitionInput,
    ) -> Result<Option<SubscriptionTransitionPayload>> {
        transition(ctx, input, SubscriptionAction::Drain).await
    }

    /// Deactivates a source subscription: it ends, and its path is free for another registration.
    #[graphql(guard = "CHANGE_SUBSCRIPTION")]
    async fn deactivate_subscription(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Subscription to deactivate.")] input: SubscriptionTransitionInput,
    ) -> Result<Option<SubscriptionTransitionPayload>> {
        transition(ctx, input, SubscriptionAction::Deactivate).await
    }

    /// Carries out a transition of several source subscriptions. Each transition succeeds or fails independently.
    #[graphql(guard = "LIFECYCLE")]
    async fn transition_subscriptions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Action and selection.")] input: TransitionSubscriptionsInput,
    ) -> Result<Option<TransitionSubscriptionsPayload>> {
        audited(ctx, None::<String>, transition_all(ctx, input)).await.map(Some)
    }
}

async fn transition(
    ctx: &Context<'_>,
    input: SubscriptionTransitionInput,
    action: SubscriptionAction,
) -> Result<Option<SubscriptionTransitionPayload>> {
    let changed = audited(ctx, [input.subscription_id.0.clone()], async {
        let target = Target::Id(input.subscription_id.clone());
        let changed = match input.parse(action, caller(ctx)?, changes_only_own(ctx)?, &WrittenInput::new(ctx)) {
            Ok(transition) => ctx.data::<Services>()?.subscriptions.transition(&transition).await,
            Err(rejection) => Err(rejection.into()),
        };
        Changed::new(target, changed)
    });
    Ok(Some(SubscriptionTransitionPayload { changed: changed.await? }))
}

async fn transition_all(
    ctx: &Context<'_>,
    input: TransitionSubscriptionsInput,
) -> Result<TransitionSubscriptionsPayload> {
    let (subscriptions, caller) = (&ctx.data::<Services>()?.subscriptions, caller(ctx)?);
    let (action, reason) = (input.action.into(), input.reason.as_deref());
    let outcome = match input.select.parse(ctx) {
        Ok(selection) => subscriptions.transition_all(action, selection, reason, input.dry_run, &caller).await,
        Err(rejection) => Err(rejection.into()),
    };
    let (bulk, user_errors) = result_or_user_error(outcome)?;
    let Some(bulk) = bulk else {
        return Ok(TransitionSubscriptionsPayload { results: Vec::new(), unavailable_shards: Vec::new(), user_errors });
    };
    let results = bulk.items.into_iter().map(TransitionSubscriptionsResult::new).collect();
    Ok(TransitionSubscriptionsPayload { results, unavailable_shards: bulk.unavailable, user_errors })
}

//! Transitions of one source subscription.

use async_trait::async_trait;

use super::Subscriptions;
use super::activation::{LiveTarget, check_expected, log_change, unknown};
use crate::moves::Repetition;
use noetl_domain::lifecycle::{Action, InvalidTransition, State};
use noetl_domain::tenant::Caller;
use noetl_runtime::clock;
use noetl_storage::log::LockedLog;
use noetl_storage::subscriptions::SubscriptionRow;
use noetl_use_cases::bounds::check_reason;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};
use noetl_use_cases::subscriptions::{Transition, TransitionOne};

#[async_trait]
impl TransitionOne for Subscriptions {
    #[tracing::instrument(
        level = "debug", name = "subscriptions.transition", skip_all,
        fields(subscription = %request.id, action = ?request.action)
    )]
    async fn transition(&self, request: &Transition) -> Result<SubscriptionRow, ServiceError> {
        check_reason(request.reason.as_deref())?;
        let Caller { actor, scope, .. } = &request.caller;
        let mut repetition = Repetition::new(&self.databases);
        loop {
            let mut log = LockedLog::lock(self.databases.shard_of(request.id), request.id).await?;
            let current = log.subscription(scope).await?.ok_or_else(|| unknown(request.id))?;
            if request.only_own && (actor.is_none() || log.registered_by().await? != *actor) {
                return Err(ServiceError::NotOwner(request.id));
            }
            check_expected(&current, request.expected_last_event_id)?;
            let next = state_after(&current, request.action)?;
            if current.state.is_live() || !next.is_live() {
                match self.append(log, &current, request, next).await {
                    Err(error) if error.bucket_moves().is_some() && repetition.again().await => continue,
                    outcome => return outcome,
                }
            }
            drop(log);
            let entry = self.entry(&current.path).await?;
            let wanted = LiveTarget::This {
                id: request.id,
                expected: request.expected_last_event_id,
                reason: request.reason.as_deref(),
            };
            if let Some(live) = self.activator.make_live(&entry, wanted, &request.caller).await? {
                return Ok(live);
            }
        }
    }
}

impl Subscriptions {
    async fn append(
        &self,
        mut log: LockedLog<'_>,
        current: &SubscriptionRow,
        request: &Transition,
        next: State,
    ) -> Result<SubscriptionRow, ServiceError> {
        let last = log.last_event_id().await?.unwrap_or(current.last_event_id);
        let event_id = self.ids.next_after(last).await?;
        let by = request.caller.actor.as_ref();
        let event =
            current.log(by).transitioned(event_id, request.action, next, request.reason.as_deref(), clock::now());
        log.append(&[event]).await?;
        let row = log.subscription(&request.caller.scope).await?.ok_or_else(|| unknown(current.id))?;
        log.commit().await?;
        self.wake_ups.wake_feed(self.databases.index_of(current.id));
        log_change(&row, request.reason.as_deref(), by);
        Ok(row)
    }
}

/// Returns the state after an action, or the reason that the action is not allowed.
pub(super) fn state_after(current: &SubscriptionRow, action: Action) -> Result<State, Rejection> {
    let refused = |refusal: InvalidTransition| {
        Rejection::new(RejectionCode::InvalidTransition, "subscriptionId", refusal.to_string())
    };
    current.state.after(action).map_err(refused)
}

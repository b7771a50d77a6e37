//! Making subscriptions live: at most one per path.
//!
//! The steps are always: commit an intent under the lock on the path's row, fulfil it on the shard while holding that
//! lock, settle it. A caller that finds an unsettled intent fulfils it first. So after a crash between any two steps,
//! the next caller or the sweeper finishes the work.
//!
//! An intent names the lifecycle event that it follows. If another lifecycle event follows that one, such as a
//! deactivation, the intent is void: it is settled, and nothing is written for it.
//!
//! NoETL's server registers subscriptions without these steps. Before an intent is fulfilled, its holder searches the
//! logs: a live subscription of the path that another server registered is adopted ([`super::foreign`]), and the intent
//! is dropped. NoETL takes no lock, so it can still register the path between this search and the commit of the event.
//!
//! Lock order: the path's row in the cluster database, then the log on the shard.

use std::sync::Arc;

use crate::ids::Ids;
use crate::moves::repeated;
use noetl_domain::actor::Actor;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::{Action, State};
use noetl_domain::subscription_log::SubscriptionLog;
use noetl_domain::tenant::{Caller, Scope, Tenancy};
use noetl_runtime::wake::WakeUps;
use noetl_runtime::{clock, crash_point};
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::log::LockedLog;
use noetl_storage::pools::{Database, Databases};
use noetl_storage::registry::{self, Intent, PathLock, RegistryRow};
use noetl_storage::subscriptions::{self, SubscriptionRow};
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};

/// Subscription that a caller wants to make live.
#[derive(Debug, Clone, Copy)]
pub(super) enum LiveTarget<'a> {
    /// Any subscription of the path; if none is live, another one is registered for this tenant and organization.
    Any { tenancy: &'a Tenancy },
    /// This deactivated subscription, if the expected event is still its latest one.
    This { id: Id, expected: Option<Id>, reason: Option<&'a str> },
}

impl LiveTarget<'_> {
    /// Returns the reason that the caller gives.
    fn reason(&self) -> Option<&str> {
        match self {
            Self::Any { .. } => None,
            Self::This { reason, .. } => *reason,
        }
    }
}

/// Use case that makes subscriptions live.
#[derive(Debug, Clone)]
pub(super) struct Activator {
    pub(super) databases: Databases,
    ids: Arc<Ids>,
    wake_ups: WakeUps,
}

impl Activator {
    pub(super) fn new(databases: Databases, ids: Arc<Ids>, wake_ups: WakeUps) -> Self {
        Self { databases, ids, wake_ups }
    }

    /// Makes a subscription of the path of `entry` live. The subscription that is returned may belong to another tenant
    /// than the caller. For [`LiveTarget::This`], the event that made it live fulfils this call's own intent, even if
    /// another caller wrote it. `Ok(None)`: the wanted subscription is live because of another call.
    pub(super) async fn make_live(
        &self,
        entry: &CatalogEntry,
        wanted: LiveTarget<'_>,
        caller: &Caller,
    ) -> Result<Option<SubscriptionRow>, ServiceError> {
        // The event that this call's own intent follows, once the intent is committed. Another caller may fulfil it.
        let mut intended = None;
        loop {
            let Some(lock) = PathLock::take(self.cluster(), &entry.path).await? else {
                let intent = self.intent(wanted, caller).await?;
                if registry::reserve(self.cluster(), &entry.path, &intent).await? {
                    intended = Some(intent.after);
                }
                crash_point::reach("register.reserved");
                continue;
            };
            if let Some(after) = lock.row.intent_after {
                if let Some(foreign) = self.foreign(&entry.path, lock.row.subscription_id).await? {
                    lock.adopt(foreign.id).await?;
                    continue;
                }
                let fulfil = || self.fulfil(entry, &lock.row, after, wanted.reason());
                let made = repeated(&self.databases, fulfil).await?;
                crash_point::reach("register.created");
                lock.settle().await?;
                match made {
                    Some(made) if intended == Some(after) || matches!(wanted, LiveTarget::Any { .. }) => {
                        return Ok(Some(made));
                    }
                    _ => continue,
                }
            }
            if let (LiveTarget::This { id, .. }, Some(after)) = (wanted, intended)
                && let Some(activated) = self.activated(id, after).await?
            {
                return Ok(Some(activated));
            }
            let current = self
                .get(lock.row.subscription_id, &Scope::Unrestricted)
                .await?
                .filter(|current| current.state.is_live());
            match (wanted, current) {
                (LiveTarget::Any { .. }, Some(live)) => return Ok(Some(live)),
                (LiveTarget::This { id, .. }, Some(live)) if live.id != id => {
                    return Err(occupied(&live, "subscriptionId", &caller.scope).into());
                }
                (LiveTarget::This { .. }, Some(_)) => return Ok(None),
                (_, None) => {
                    let intent = self.intent(wanted, caller).await?;
                    lock.store_intent(&intent).await?;
                    intended = Some(intent.after);
                }
            }
            crash_point::reach("register.intended");
        }
    }

    /// Fulfils an intent that a caller left on the path of `entry`. It makes no other subscription live, even if the
    /// one that the intent made live has ended since.
    pub(super) async fn finish(&self, entry: &CatalogEntry) -> Result<(), ServiceError> {
        let Some(lock) = PathLock::take(self.cluster(), &entry.path).await? else {
            return Ok(());
        };
        let Some(after) = lock.row.intent_after else {
            return Ok(());
        };
        if let Some(foreign) = self.foreign(&entry.path, lock.row.subscription_id).await? {
            return Ok(lock.adopt(foreign.id).await?);
        }
        repeated(&self.databases, || self.fulfil(entry, &lock.row, after, None)).await?;
        Ok(lock.settle().await?)
    }

    /// Returns a subscription in its state right after the event that fulfilled the intent to activate it after the
    /// event `after`; `None` if the intent was void.
    async fn activated(&self, id: Id, after: Id) -> Result<Option<SubscriptionRow>, ServiceError> {
        let mut log = LockedLog::lock(self.databases.shard_of(id), id).await?;
        let (next, current) = (log.change_after(after).await?, log.subscription(&Scope::Unrestricted).await?);
        log.confirm().await?;
        Ok(next.filter(|change| change.made_live).zip(current).map(|(change, current)| SubscriptionRow {
            state: State::Active,
            state_text: State::Active.as_str().to_owned(),
            last_event_id: change.event_id,
            last_event_type: Action::Activate.event_type().to_owned(),
            updated_at: change.at,
            ..current
        }))
    }

    pub(super) async fn get(&self, id: Id, scope: &Scope) -> Result<Option<SubscriptionRow>, ServiceError> {
        let rows = subscriptions::by_ids(self.databases.shard_of(id), scope, &[id.get()]).await?;
        Ok(rows.into_iter().next())
    }

    pub(super) fn cluster(&self) -> &Database {
        self.databases.cluster()
    }

    /// Returns the intent of a caller.
    async fn intent<'a>(&self, wanted: LiveTarget<'a>, caller: &'a Caller) -> Result<Intent<'a>, ServiceError> {
        let by = caller.actor.as_ref();
        match wanted {
            LiveTarget::Any { tenancy } => {
                let subscription = self.ids.next().await?;
                Ok(Intent { subscription, after: Id::new(0), tenancy: Some(tenancy), by })
            }
            LiveTarget::This { id, expected, .. } => {
                let current = self.get(id, &caller.scope).await?.ok_or_else(|| unknown(id))?;
                check_expected(&current, expected)?;
                Ok(Intent { subscription: id, after: current.last_event_id, tenancy: None, by })
            }
        }
    }

    /// Writes the event that an intent asks for, unless it is already written or the intent is void. Returns `None` if
    /// the intent is void, or if the subscription that it made live has ended since.
    async fn fulfil(
        &self,
        entry: &CatalogEntry,
        row: &RegistryRow,
        after: Id,
        reason: Option<&str>,
    ) -> Result<Option<SubscriptionRow>, ServiceError> {
        let (id, by) = (row.subscription_id, row.intent_actor.as_ref());
        let mut log = LockedLog::lock(self.databases.shard_of(id), id).await?;
        if let Some(next) = log.change_after(after).await? {
            let current = log.subscription(&Scope::Unrestricted).await?;
            log.confirm().await?;
            return Ok(current.filter(|current| next.made_live && current.state.is_live()));
        }
        let event = match log.subscription(&Scope::Unrestricted).await? {
            None if log.last_event_id().await?.is_some() => return Err(ServiceError::IdTaken(id)),
            None => {
                let (path, tenancy) = (&entry.path, &row.intent_tenancy);
                let registered = SubscriptionLog { id, path, catalog_id: Id::new(entry.catalog_id), tenancy, by };
                registered.registered(self.ids.next_after(id).await?, &entry.labels(), clock::now())
            }
            Some(ended) => {
                let last = log.last_event_id().await?.unwrap_or(ended.last_event_id);
                let event_id = self.ids.next_after(last).await?;
                ended.log(by).transitioned(event_id, Action::Activate, State::Active, reason, clock::now())
            }
        };
        log.append(&[event]).await?;
        let made = log.subscription(&Scope::Unrestricted).await?;
        log.commit().await?;
        self.wake_ups.wake_feed(self.databases.index_of(id));
        if let Some(made) = &made {
            log_change(made, reason, by);
        }
        Ok(made)
    }
}

/// Writes a committed lifecycle event to the server's log.
pub(super) fn log_change(changed: &SubscriptionRow, reason: Option<&str>, by: Option<&Actor>) {
    tracing::info!(
        subscription = %changed.id,
        path = changed.path,
        event_type = changed.last_event_type,
        event = %changed.last_event_id,
        state = %changed.state,
        reason,
        actor = by.map(Actor::subject),
        "a source subscription changed"
    );
}

/// Creates the rejection of an id that no subscription has.
pub(super) fn unknown(id: Id) -> Rejection {
    Rejection::not_found("subscriptionId", format!("there is no subscription {id}"))
}

/// Creates the rejection of a path that has another live subscription. A caller learns nothing about a subscription of
/// another tenant.
pub(super) fn occupied(live: &SubscriptionRow, field: &str, scope: &Scope) -> Rejection {
    if !scope.admits(&live.tenancy.tenant_id) {
        let message = format!("path {:?} is in use by another tenant; all tenants share the paths", live.path);
        return Rejection::new(RejectionCode::ForeignTenant, field, message);
    }
    let message = format!(
        "path {:?} has another live subscription: {}, with status {}; deactivate it first",
        live.path, live.id, live.state
    );
    Rejection::new(RejectionCode::InvalidTransition, field, message)
}

/// Checks `expectedLastEventId`: the caller expects this event to be the latest lifecycle event.
pub(super) fn check_expected(current: &SubscriptionRow, expected: Option<Id>) -> Result<(), Rejection> {
    match expected {
        Some(expected) if expected != current.last_event_id => {
            let message = format!(
                "the subscription's last lifecycle event is {} ({}), not {expected}; read it again before you retry",
                current.last_event_id, current.state
            );
            Err(Rejection::new(RejectionCode::StaleVersion, "expectedLastEventId", message))
        }
        _ => Ok(()),
    }
}

//! Making a subscription live, at most one per path.
//!
//! The order is always: commit an intent under the path's row lock, fulfil it on the shard while holding that lock,
//! settle. Whoever finds an unsettled intent fulfils it first, so a crash between any two steps leaves nothing that the
//! next caller, or the sweeper, does not finish.

use std::sync::Arc;

use super::error::{Rejection, RejectionCode, ServiceError};
use super::ids::Ids;
use super::wake::Wakes;
use super::{clock, fault};
use crate::domain::actor::Actor;
use crate::domain::ids::Id;
use crate::domain::lifecycle::{Action, State};
use crate::domain::subscription_log::SubscriptionLog;
use crate::storage::catalog::CatalogEntry;
use crate::storage::log::LockedLog;
use crate::storage::pools::{Database, Databases};
use crate::storage::registry::{self, PathLock, RegistryRow};
use crate::storage::subscriptions::{self, SubscriptionRow};

/// What is to become live.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// Any subscription of the path; a fresh one if none is live.
    Any,
    /// This deactivated one, if nothing happened to it since the expected event.
    This { id: Id, expected: Option<Id>, reason: Option<&'a str> },
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The wanted subscription is live by an event that this call, or a helper for it, wrote; or it was live before
    /// where any would do.
    Live(SubscriptionRow),
    /// The wanted subscription is live through somebody else's doing.
    AlreadyLive,
}

/// Makes subscriptions live.
#[derive(Debug, Clone)]
pub(super) struct Registry {
    databases: Databases,
    ids: Arc<Ids>,
    wakes: Wakes,
}

impl Registry {
    pub(super) fn new(databases: Databases, ids: Arc<Ids>, wakes: Wakes) -> Self {
        Self { databases, ids, wakes }
    }

    /// Makes a subscription of `entry`'s path live.
    pub(super) async fn make_live(
        &self,
        entry: &CatalogEntry,
        wanted: Wanted<'_>,
        by: Option<&Actor>,
    ) -> Result<Outcome, ServiceError> {
        // What this call's own intent follows, once it is committed: whoever fulfilled it did so for this call.
        let mut intended = None;
        loop {
            let Some(lock) = PathLock::take(self.cluster(), &entry.path).await? else {
                let (id, after) = self.first_intent(wanted).await?;
                if registry::reserve(self.cluster(), &entry.path, id, after, by).await? {
                    intended = Some(after);
                }
                fault::reach("register.reserved");
                continue;
            };
            if let Some(after) = lock.row.intent_after {
                let made = self.fulfil(entry, &lock.row, after, wanted).await?;
                fault::reach("register.created");
                lock.settle().await?;
                match made {
                    Some(made) if intended == Some(after) || matches!(wanted, Wanted::Any) => {
                        return Ok(Outcome::Live(made));
                    }
                    _ => continue,
                }
            }
            if let (Wanted::This { id, .. }, Some(after)) = (wanted, intended)
                && let Some(activated) = self.activated(id, after).await?
            {
                return Ok(Outcome::Live(activated));
            }
            let current = self.get(lock.row.subscription_id).await?.filter(|current| current.state.is_live());
            match (wanted, current) {
                (Wanted::Any, Some(live)) => return Ok(Outcome::Live(live)),
                (Wanted::This { id, .. }, Some(live)) if live.id != id => return Err(occupied(&live).into()),
                (Wanted::This { .. }, Some(_)) => return Ok(Outcome::AlreadyLive),
                (_, None) => {
                    let (id, after) = self.first_intent(wanted).await?;
                    lock.intend(id, after, by).await?;
                    intended = Some(after);
                }
            }
            fault::reach("register.intended");
        }
    }

    /// Fulfils the intent that a caller left on `entry`'s path, and makes nothing else live: what the intent made live
    /// may have ended since.
    pub(super) async fn finish(&self, entry: &CatalogEntry) -> Result<(), ServiceError> {
        let Some(lock) = PathLock::take(self.cluster(), &entry.path).await? else {
            return Ok(());
        };
        if let Some(after) = lock.row.intent_after {
            self.fulfil(entry, &lock.row, after, Wanted::Any).await?;
            lock.settle().await?;
        }
        Ok(())
    }

    /// A subscription as the first activation after an event left it.
    async fn activated(&self, id: Id, after: Id) -> Result<Option<SubscriptionRow>, ServiceError> {
        let mut log = LockedLog::lock(self.databases.shard_of(id), id).await?;
        let (made, current) = (log.made_live_after(after).await?, log.subscription().await?);
        Ok(made.zip(current).map(|((event, at), current)| SubscriptionRow {
            state: State::Active,
            last_event_id: event,
            last_event_type: Action::Activate.event_type().to_owned(),
            updated_at: at,
            ..current
        }))
    }

    async fn get(&self, id: Id) -> Result<Option<SubscriptionRow>, ServiceError> {
        let rows = subscriptions::by_ids(self.databases.shard_of(id), &[id.get()]).await?;
        Ok(rows.into_iter().next())
    }

    fn cluster(&self) -> &Database {
        self.databases.cluster()
    }

    async fn first_intent(&self, wanted: Wanted<'_>) -> Result<(Id, Id), ServiceError> {
        let Wanted::This { id, expected, .. } = wanted else {
            return Ok((self.ids.next()?, Id::new(0)));
        };
        let current = self.get(id).await?.ok_or_else(|| unknown(id))?;
        check_expected(&current, expected)?;
        Ok((id, current.last_event_id))
    }

    /// Writes the event that an intent asks for unless it is written. `None`: what the intent made live has ended since.
    async fn fulfil(
        &self,
        entry: &CatalogEntry,
        row: &RegistryRow,
        after: Id,
        wanted: Wanted<'_>,
    ) -> Result<Option<SubscriptionRow>, ServiceError> {
        let (id, by) = (row.subscription_id, row.intent_actor.as_ref());
        let mut log = LockedLog::lock(self.databases.shard_of(id), id).await?;
        if log.made_live_after(after).await?.is_some() {
            return Ok(log.subscription().await?.filter(|made| made.state.is_live()));
        }
        let event = match log.subscription().await? {
            None => {
                let registered = SubscriptionLog { id, path: &entry.path, catalog_id: Id::new(entry.catalog_id), by };
                registered.registered(self.ids.next_after(id).await?, clock::now())
            }
            Some(ended) => {
                let last = log.last_event_id().await?.unwrap_or(ended.last_event_id);
                let event_id = self.ids.next_after(last).await?;
                let reason = if let Wanted::This { reason, .. } = wanted { reason } else { None };
                ended.log(by).moved(event_id, Action::Activate, State::Active, reason, clock::now())
            }
        };
        log.append(&[event]).await?;
        let made = log.subscription().await?;
        log.commit().await?;
        self.wakes.ring(self.databases.index_of(id));
        Ok(made)
    }
}

/// A subscription that does not exist.
pub(super) fn unknown(id: Id) -> Rejection {
    Rejection::not_found("id", format!("there is no subscription {id}"))
}

fn occupied(live: &SubscriptionRow) -> Rejection {
    let message = format!(
        "path {:?} has another live subscription, {}, which is {}; deactivate that one first",
        live.path, live.id, live.state
    );
    Rejection::new(RejectionCode::InvalidTransition, "id", message)
}

/// The optimistic check of `expectedLastEventId`.
pub(super) fn check_expected(current: &SubscriptionRow, expected: Option<Id>) -> Result<(), Rejection> {
    match expected {
        Some(expected) if expected != current.last_event_id => {
            let message = format!(
                "the subscription's last lifecycle event is {} ({}), not {expected}; read it again and decide anew",
                current.last_event_id, current.state
            );
            Err(Rejection::new(RejectionCode::StaleVersion, "expectedLastEventId", message))
        }
        _ => Ok(()),
    }
}

//! Source subscriptions: register, the five transitions, bulk transitions, reads.
//!
//! The lock on a subscription's log serialises its transitions, and each is validated against the state that it
//! follows. A call that makes a subscription live goes through [`activation`].

mod activation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt, stream};

use crate::runtime::clock;
use crate::runtime::wake::WakeUps;
use crate::service::bounds::check_reason;
use crate::service::catalog::{Catalog, check_path};
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use crate::service::fan_out::{self, Listing};
use crate::service::ids::Ids;
use crate::service::shards::rows_by_ids;
use activation::{Activator, LiveTarget, Outcome, check_expected, unknown};
use noetl_domain::actor::Actor;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::{Action, State};
use noetl_domain::page::{MAX_PAGE, PageRequest};
use noetl_domain::shard::ShardIndex;
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::log::LockedLog;
use noetl_storage::pools::{Database, Databases};
use noetl_storage::registry;
use noetl_storage::subscriptions::{self, SubscriptionFilter, SubscriptionRow};

/// Maximum number of subscriptions in one bulk transition.
const MAX_BULK: usize = 1000;
/// Number of transitions of one bulk that run at the same time.
const BULK_CONCURRENCY: usize = 8;
/// Age in seconds from which the sweeper finishes an intent.
const STALE_INTENT_SECONDS: f64 = 5.0;
/// Number of intents that one query of the sweeper reads.
const SWEEP_PAGE: i64 = 100;

/// Use cases of source subscriptions.
#[derive(Debug, Clone)]
pub struct Subscriptions {
    databases: Databases,
    ids: Arc<Ids>,
    catalog: Catalog,
    wake_ups: WakeUps,
    activator: Activator,
}

/// Request for a transition.
#[derive(Debug, Clone)]
pub struct Transition {
    /// The subscription.
    pub id: Id,
    /// The action.
    pub action: Action,
    /// Lifecycle event that must still be the latest one; `None`: no check.
    pub expected_last_event_id: Option<Id>,
    /// Reason, stored in the event.
    pub reason: Option<String>,
    /// The caller; `None`: it is not identified.
    pub by: Option<Actor>,
    /// Whether the caller may change only the subscriptions that it registered.
    pub only_own: bool,
}

/// Result of a bulk transition for one subscription.
#[derive(Debug)]
pub struct BulkItem {
    /// The subscription at the time of the match.
    pub matched: SubscriptionRow,
    /// The subscription after the transition, or the reason that it was not changed. A dry run returns it unchanged.
    pub outcome: Result<SubscriptionRow, ServiceError>,
}

/// Result of a bulk transition.
#[derive(Debug)]
pub struct Bulk {
    /// The matched subscriptions, newest first.
    pub items: Vec<BulkItem>,
    /// Shards whose subscriptions could not be matched.
    pub unavailable: Vec<ShardIndex>,
}

impl Subscriptions {
    /// Creates the use cases.
    #[must_use]
    pub fn new(databases: Databases, ids: Arc<Ids>, catalog: Catalog, wake_ups: WakeUps) -> Self {
        let activator = Activator::new(databases.clone(), Arc::clone(&ids), wake_ups.clone());
        Self { databases, ids, catalog, wake_ups, activator }
    }

    /// Returns the path's live subscription. Registers the path's newest catalog entry if none is live.
    #[tracing::instrument(level = "debug", name = "subscriptions.register", skip_all, fields(path))]
    pub async fn register(&self, path: &str, by: Option<&Actor>) -> Result<SubscriptionRow, ServiceError> {
        let entry = self.entry(path).await?;
        match self.activator.make_live(&entry, LiveTarget::Any, by).await? {
            Outcome::Live(live) => Ok(live),
            Outcome::AlreadyLive => Err(not_found(path).into()),
        }
    }

    /// Carries out one transition.
    #[tracing::instrument(
        level = "debug", name = "subscriptions.transition", skip_all,
        fields(subscription = %asked.id, action = ?asked.action)
    )]
    pub async fn transition(&self, asked: &Transition) -> Result<SubscriptionRow, ServiceError> {
        check_reason(asked.reason.as_deref())?;
        loop {
            let mut log = LockedLog::lock(self.databases.shard_of(asked.id), asked.id).await?;
            let current = log.subscription().await?.ok_or_else(|| unknown(asked.id))?;
            if asked.only_own && (asked.by.is_none() || log.registered_by().await? != asked.by) {
                return Err(ServiceError::NotOwner(asked.id));
            }
            check_expected(&current, asked.expected_last_event_id)?;
            let next = after(&current, asked.action)?;
            if current.state.is_live() || !next.is_live() {
                return self.append(log, &current, asked, next).await;
            }
            drop(log);
            let entry = self.entry(&current.path).await?;
            let wanted = LiveTarget::This {
                id: asked.id,
                expected: asked.expected_last_event_id,
                reason: asked.reason.as_deref(),
            };
            if let Outcome::Live(live) = self.activator.make_live(&entry, wanted, asked.by.as_ref()).await? {
                return Ok(live);
            }
        }
    }

    async fn append(
        &self,
        mut log: LockedLog<'_>,
        current: &SubscriptionRow,
        asked: &Transition,
        next: State,
    ) -> Result<SubscriptionRow, ServiceError> {
        let last = log.last_event_id().await?.unwrap_or(current.last_event_id);
        let event_id = self.ids.next_after(last).await?;
        let event =
            current.log(asked.by.as_ref()).moved(event_id, asked.action, next, asked.reason.as_deref(), clock::now());
        log.append(&[event]).await?;
        let row = log.subscription().await?.ok_or_else(|| unknown(current.id))?;
        log.commit().await?;
        self.wake_ups.wake_feed(self.databases.index_of(current.id));
        Ok(row)
    }

    /// Carries out an action on all matching subscriptions. With `dry_run`, only checks whether the action is allowed.
    #[tracing::instrument(level = "debug", name = "subscriptions.transition_all", skip_all, fields(action = ?action))]
    pub async fn transition_all(
        &self,
        action: Action,
        filter: &SubscriptionFilter,
        reason: Option<&str>,
        dry_run: bool,
        by: Option<&Actor>,
    ) -> Result<Bulk, ServiceError> {
        check_reason(reason)?;
        let (matched, unavailable) = self.matching(filter).await?;
        let items = stream::iter(matched).map(async |matched: SubscriptionRow| {
            let outcome = if dry_run {
                after(&matched, action).map_err(ServiceError::from).map(|_| matched.clone())
            } else {
                let reason = reason.map(str::to_owned);
                let (id, by) = (matched.id, by.cloned());
                let asked = Transition { id, action, expected_last_event_id: None, reason, by, only_own: false };
                self.transition(&asked).await
            };
            BulkItem { matched, outcome }
        });
        Ok(Bulk { items: items.buffered(BULK_CONCURRENCY).collect().await, unavailable })
    }

    async fn matching(
        &self,
        filter: &SubscriptionFilter,
    ) -> Result<(Vec<SubscriptionRow>, Vec<ShardIndex>), ServiceError> {
        let mut request = PageRequest { limit: MAX_PAGE, backwards: false, after: None, before: None };
        let (mut matched, mut missing) = (Vec::<SubscriptionRow>::new(), BTreeSet::new());
        loop {
            let Listing { page, unavailable } = self.list(filter, &request).await?;
            missing.extend(unavailable);
            matched.extend(page.items);
            if matched.len() > MAX_BULK || (page.has_next && matched.len() == MAX_BULK) {
                let message = format!("the filter matches more than {MAX_BULK} subscriptions; narrow it");
                return Err(Rejection::invalid("filter", message).into());
            }
            if !page.has_next {
                return Ok((matched, missing.into_iter().collect()));
            }
            request.after = matched.last().map(|row| row.id.get());
        }
    }

    /// Returns a subscription by id.
    #[tracing::instrument(level = "debug", name = "subscriptions.get", skip_all, fields(id = %id))]
    pub async fn get(&self, id: Id) -> Result<Option<SubscriptionRow>, ServiceError> {
        let rows = subscriptions::by_ids(self.databases.shard_of(id), &[id.get()]).await?;
        Ok(rows.into_iter().next())
    }

    /// Returns the subscriptions with these ids, and the error of each shard that could not be read.
    #[tracing::instrument(
        level = "debug", name = "subscriptions.by_ids", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display))
    )]
    pub async fn by_ids(&self, ids: &[Id]) -> (Vec<SubscriptionRow>, BTreeMap<ShardIndex, ServiceError>) {
        let query = |shard, ids: Vec<i64>| async move { subscriptions::by_ids(shard, &ids).await };
        rows_by_ids(&self.databases, ids.iter().copied(), query).await
    }

    /// Returns the path's subscription: the live one, else the one that was live last.
    #[tracing::instrument(level = "debug", name = "subscriptions.by_path", skip_all, fields(path))]
    pub async fn by_path(&self, path: &str) -> Result<Option<SubscriptionRow>, ServiceError> {
        match registry::find(self.cluster(), path).await? {
            Some(id) => self.get(id).await,
            None => Ok(None),
        }
    }

    /// Returns a page, newest first.
    #[tracing::instrument(level = "debug", name = "subscriptions.list", skip_all)]
    pub async fn list(
        &self,
        filter: &SubscriptionFilter,
        request: &PageRequest<i64>,
    ) -> Result<Listing<SubscriptionRow>, ServiceError> {
        let query = |shard, range| subscriptions::list(shard, filter, range);
        fan_out::newest_first(&self.databases, request, |row: &SubscriptionRow| row.id.get(), query).await
    }

    /// Finishes the intents of crashed callers. One that can't be finished does not delay the others. Returns the
    /// number of intents found.
    #[tracing::instrument(level = "debug", name = "subscriptions.sweep", skip_all)]
    pub async fn sweep(&self) -> Result<usize, ServiceError> {
        let (mut found, mut last) = (0, String::new());
        loop {
            let paths = registry::stale(self.cluster(), STALE_INTENT_SECONDS, &last, SWEEP_PAGE).await?;
            for path in &paths {
                match self.finish(path).await {
                    Ok(()) => tracing::info!(path, "finished an abandoned registration"),
                    Err(error) => tracing::warn!(path, %error, "could not finish an abandoned registration"),
                }
            }
            found += paths.len();
            let Some(behind) = paths.into_iter().next_back() else {
                return Ok(found);
            };
            last = behind;
        }
    }

    async fn finish(&self, path: &str) -> Result<(), ServiceError> {
        let entry = self.entry(path).await?;
        self.activator.finish(&entry).await
    }

    fn cluster(&self) -> &Database {
        self.databases.cluster()
    }

    async fn entry(&self, path: &str) -> Result<Arc<CatalogEntry>, ServiceError> {
        check_path(path)?;
        let entry = self.catalog.newest_of(path).await?.ok_or_else(|| not_found(path))?;
        if entry.kind.eq_ignore_ascii_case("subscription") {
            return Ok(entry);
        }
        let message = format!("catalog path {path:?} is of kind {}, not subscription", entry.kind.to_lowercase());
        Err(Rejection::new(RejectionCode::WrongKind, "path", message).into())
    }
}

fn after(current: &SubscriptionRow, action: Action) -> Result<State, Rejection> {
    let refused = |refusal: noetl_domain::lifecycle::InvalidTransition| {
        Rejection::new(RejectionCode::InvalidTransition, "id", refusal.to_string())
    };
    current.state.after(action).map_err(refused)
}

fn not_found(path: &str) -> Rejection {
    Rejection::not_found("path", format!("the catalog has no path {path:?}; register it with registerCatalogEntry"))
}

//! Repair of registrations and logs that were restored to different times.

use futures::future::try_join_all;

use super::Subscriptions;
use noetl_domain::ids::Id;
use noetl_domain::lifecycle::Action;
use noetl_domain::tenant::{Caller, Scope};
use noetl_storage::check;
use noetl_storage::registry::{Intent, PathLock};
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::subscriptions::{Transition, TransitionOne};

/// Reason in the event that deactivates a subscription.
const REASON: &str = "the path has a later live subscription; the databases were restored to different times";

impl Subscriptions {
    /// Registers the subscription of a path again under its id, if its log is lost. Its executions and its dedup keys
    /// name this id, so another one would repeat messages. If another subscription of the path is live, the path is
    /// given to it instead. Does nothing if the log exists, or if the path has another registration meanwhile.
    #[tracing::instrument(level = "debug", name = "subscriptions.register_again", skip_all, fields(path, %id))]
    pub async fn register_again(&self, path: &str, id: Id) -> Result<(), ServiceError> {
        let entry = self.entry_of_begun(path).await?;
        let Some(lock) = PathLock::take(self.databases.cluster(), path).await? else {
            return Ok(());
        };
        let is_current = lock.row.subscription_id == id && lock.row.intent_after.is_none();
        if !is_current || self.activator.get(id, &Scope::Unrestricted).await?.is_some() {
            return Ok(());
        }
        if let Some(live) = self.activator.foreign(path, id).await? {
            return Ok(lock.adopt(live.id).await?);
        }
        let tenancy = lock.row.intent_tenancy.clone();
        let intent = Intent { subscription: id, after: Id::new(0), tenancy: Some(&tenancy), by: None };
        lock.store_intent(&intent).await?;
        self.activator.finish(&entry).await
    }

    /// Makes the live subscription of a path with the latest lifecycle event the registered one, and deactivates the
    /// other live ones. Fails if a shard can't be read.
    #[tracing::instrument(level = "debug", name = "subscriptions.keep_latest", skip_all, fields(path))]
    pub async fn keep_latest(&self, path: &str) -> Result<(), ServiceError> {
        let paths = [path.to_owned()];
        let live = self.databases.views().into_iter().map(|shard| check::subscriptions::live_of_paths(shard, &paths));
        let mut live: Vec<_> = try_join_all(live).await?.into_iter().flatten().collect();
        live.sort_unstable_by_key(|one| (one.updated_at, one.last_event_id));
        live.pop();
        for earlier in live {
            let request = Transition {
                id: Id::new(earlier.id),
                action: Action::Deactivate,
                expected_last_event_id: Some(Id::new(earlier.last_event_id)),
                reason: Some(REASON.to_owned()),
                caller: Caller { actor: None, scope: Scope::Unrestricted, imports: false },
                only_own: false,
            };
            self.transition(&request).await?;
        }
        self.activator.of_path(path, &Scope::Unrestricted).await?;
        Ok(())
    }
}

//! Source subscriptions that NoETL's server registered in the same databases. It writes only the log, so the registry
//! adopts such a subscription when this server finds it.

use futures::future::try_join_all;

use super::activation::Activator;
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;
use noetl_storage::registry::{self, ForeignSubscription, PathLock};
use noetl_storage::subscriptions::{self, SubscriptionRow};
use noetl_use_cases::error::ServiceError;

impl Activator {
    /// Returns a path's subscription in the scope according to the logs of all shards: of the live ones, else of the
    /// ended ones, the one with the latest lifecycle event. Fails if a shard can't be read, because the shard may have
    /// a live one.
    async fn in_logs(&self, path: &str, scope: &Scope) -> Result<Option<SubscriptionRow>, ServiceError> {
        let found = self.databases.views().into_iter().map(|shard| subscriptions::of_path(shard, scope, path));
        let found = try_join_all(found).await?.into_iter().flatten();
        Ok(found.max_by_key(|row| (row.state.is_live(), row.updated_at, row.last_event_id)))
    }

    /// Returns a live subscription of the path that is not the registered one. Returns `None` if the registered one is
    /// live. The caller holds the lock on the path.
    pub(super) async fn foreign(&self, path: &str, registered: Id) -> Result<Option<SubscriptionRow>, ServiceError> {
        if self.get(registered, &Scope::Unrestricted).await?.is_some_and(|own| own.state.is_live()) {
            return Ok(None);
        }
        let found = self.in_logs(path, &Scope::Unrestricted).await?;
        Ok(found.filter(|found| found.state.is_live() && found.id != registered))
    }

    /// Returns the path's subscription in the scope: the live one, else the one that was live last. Adopts a live one
    /// that the registry does not have.
    pub(super) async fn of_path(&self, path: &str, scope: &Scope) -> Result<Option<SubscriptionRow>, ServiceError> {
        let registered = match registry::find(self.cluster(), path).await? {
            Some(id) => self.get(id, scope).await?,
            None => None,
        };
        if registered.as_ref().is_some_and(|own| own.state.is_live()) {
            return Ok(registered);
        }
        match self.in_logs(path, scope).await? {
            Some(live) if live.state.is_live() => {
                self.adopt(&live).await?;
                Ok(Some(live))
            }
            ended => Ok(registered.or(ended)),
        }
    }

    /// Makes a live subscription that was found in the logs the path's subscription, unless the path has got another one
    /// meanwhile.
    async fn adopt(&self, found: &SubscriptionRow) -> Result<(), ServiceError> {
        let Some(lock) = PathLock::take(self.cluster(), &found.path).await? else {
            let foreign = ForeignSubscription { id: found.id.get(), path: found.path.clone() };
            registry::adopt(self.cluster(), vec![foreign]).await?;
            return Ok(());
        };
        if let Some(foreign) = self.foreign(&found.path, lock.row.subscription_id).await? {
            lock.adopt(foreign.id).await?;
        }
        Ok(())
    }
}

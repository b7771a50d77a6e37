//! Source subscriptions: register, the five transitions, bulk transitions, reads.
//!
//! The lock on a subscription's log serialises its transitions, and each is validated against the state that it
//! follows. A call that makes a subscription live goes through [`activation`].

mod activation;
mod backlog;
mod bulk;
mod foreign;
mod read;
mod reconcile;
mod register;
mod sweep;
mod transition;

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::ids::Ids;
use activation::Activator;
use noetl_runtime::wake::WakeUps;
use noetl_storage::catalog::CatalogEntry;
use noetl_storage::pools::Databases;
use noetl_use_cases::catalog::check_path;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};

pub use backlog::{ActiveSubscription, ActiveSubscriptions};
pub(crate) use sweep::STALE_INTENT_SECONDS;

/// Use cases of source subscriptions.
#[derive(Debug, Clone)]
pub struct Subscriptions {
    databases: Databases,
    ids: Arc<Ids>,
    catalog: Catalog,
    wake_ups: WakeUps,
    activator: Activator,
}

impl Subscriptions {
    /// Creates the use cases.
    #[must_use]
    pub fn new(databases: Databases, ids: Arc<Ids>, catalog: Catalog, wake_ups: WakeUps) -> Self {
        let activator = Activator::new(databases.clone(), Arc::clone(&ids), wake_ups.clone());
        Self { databases, ids, catalog, wake_ups, activator }
    }

    /// Returns the newest catalog entry of a path that is not retired. It must be of kind `subscription`.
    async fn entry(&self, path: &str) -> Result<Arc<CatalogEntry>, ServiceError> {
        check_path(path)?;
        if let Some(entry) = self.catalog.newest_of(path).await? {
            return of_kind_subscription(path, entry);
        }
        let is_known = !self.catalog.newest_retired(&[path.to_owned()]).await?.is_empty();
        let rejection = if is_known { retired_path(path) } else { unknown_path(path) };
        Err(rejection.into())
    }

    /// Returns the catalog entry for a registration that has begun, which is finished even if all versions of its path
    /// have been retired since.
    async fn entry_of_begun(&self, path: &str) -> Result<Arc<CatalogEntry>, ServiceError> {
        let entry = self.catalog.newest_or_retired(path).await?.ok_or_else(|| unknown_path(path))?;
        of_kind_subscription(path, entry)
    }
}

/// Refuses an entry of another kind than `subscription`.
fn of_kind_subscription(path: &str, entry: Arc<CatalogEntry>) -> Result<Arc<CatalogEntry>, ServiceError> {
    if entry.kind.eq_ignore_ascii_case("subscription") {
        return Ok(entry);
    }
    let message = format!("catalog path {path:?} is of kind {}, not subscription", entry.kind.to_lowercase());
    Err(Rejection::new(RejectionCode::WrongKind, "path", message).into())
}

/// Creates the rejection of a path with only retired versions.
fn retired_path(path: &str) -> Rejection {
    let message = format!("all versions of the catalog path {path:?} are retired; restore one, or register another");
    Rejection::not_found("path", message)
}

/// Creates the rejection of a path that the catalog does not have.
fn unknown_path(path: &str) -> Rejection {
    Rejection::not_found("path", format!("the catalog has no path {path:?}; register it with registerCatalogEntry"))
}

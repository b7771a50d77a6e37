//! Source subscriptions: register, the five transitions, bulk transitions, reads.
//!
//! The lock on a subscription's log serialises its transitions, and each is validated against the state that it
//! follows. A call that makes a subscription live goes through [`activation`].

mod activation;
mod backlog;
mod bulk;
mod change_log;
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

    /// Returns the newest catalog entry of a path, which must be of kind `subscription`.
    async fn entry(&self, path: &str) -> Result<Arc<CatalogEntry>, ServiceError> {
        check_path(path)?;
        let entry = self.catalog.newest_of(path).await?.ok_or_else(|| unknown_path(path))?;
        if entry.kind.eq_ignore_ascii_case("subscription") {
            return Ok(entry);
        }
        let message = format!("catalog path {path:?} is of kind {}, not subscription", entry.kind.to_lowercase());
        Err(Rejection::new(RejectionCode::WrongKind, "path", message).into())
    }
}

/// Creates the rejection of a path that the catalog does not have.
fn unknown_path(path: &str) -> Rejection {
    Rejection::not_found("path", format!("the catalog has no path {path:?}; register it with registerCatalogEntry"))
}

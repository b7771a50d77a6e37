//! Registration of a new entry.

use std::sync::Arc;

use async_trait::async_trait;

use super::Catalog;
use noetl_domain::tenant::{Caller, Scope};
use noetl_storage::catalog::{self, CatalogEntry, NewEntry};
use noetl_use_cases::catalog::{Draft, RegisterEntries, Registered, Registration};
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};

#[async_trait]
impl RegisterEntries for Catalog {
    #[tracing::instrument(level = "debug", name = "catalog.register", skip_all, fields(path = registration.path))]
    async fn register(
        &self,
        registration: Registration,
        only_if_changed: bool,
        caller: &Caller,
    ) -> Result<Registered, ServiceError> {
        check_scope(&caller.scope)?;
        let Draft { path, kind, content, document } = registration.check()?;
        let kind = kind.name().unwrap_or_default().to_owned();
        let catalog_id = self.ids.next().await?;
        let registered_by = caller.actor.as_ref().map(|actor| actor.subject().to_owned());
        let entry = NewEntry { catalog_id, path, kind, content, document, registered_by, only_if_changed };
        match catalog::register(&self.cluster, &entry).await? {
            catalog::Registered::Added(entry) => Ok(Registered::Added(self.cache(entry).await)),
            catalog::Registered::Unchanged(entry) => Ok(Registered::Unchanged(self.cache(entry).await)),
            catalog::Registered::NoVersionLeft => {
                Err(Rejection::invalid("path", "this path has 32767 versions, which is the maximum").into())
            }
        }
    }
}

/// Refuses a caller with a tenant.
pub(super) fn check_scope(scope: &Scope) -> Result<(), Rejection> {
    if *scope == Scope::Unrestricted {
        return Ok(());
    }
    let message = "all tenants share the catalog; only a caller without a tenant may change it";
    Err(Rejection::new(RejectionCode::ForeignTenant, "", message))
}

impl Catalog {
    async fn cache(&self, entry: CatalogEntry) -> Arc<CatalogEntry> {
        let entry = Arc::new(entry);
        self.cached.insert(entry.catalog_id, Arc::clone(&entry)).await;
        entry
    }
}

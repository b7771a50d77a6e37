//! Retirement of entries.

use std::sync::Arc;

use async_trait::async_trait;

use super::Catalog;
use super::register::check_scope;
use noetl_domain::actor::Actor;
use noetl_domain::ids::Id;
use noetl_domain::tenant::Caller;
use noetl_storage::catalog::{self, CatalogEntry};
use noetl_use_cases::catalog::{ArchiveEntries, ReadCatalog};
use noetl_use_cases::error::{Rejection, ServiceError};

#[async_trait]
impl ArchiveEntries for Catalog {
    #[tracing::instrument(level = "debug", name = "catalog.set_archived", skip_all, fields(%id, archived))]
    async fn set_archived(
        &self,
        id: Id,
        all_versions: bool,
        archived: bool,
        caller: &Caller,
    ) -> Result<Arc<CatalogEntry>, ServiceError> {
        check_scope(&caller.scope)?;
        let by = caller.actor.as_ref().map(Actor::subject);
        let unknown = || Rejection::not_found("catalogId", format!("the catalog has no entry {id}"));
        if !catalog::set_archived(&self.cluster, id.get(), all_versions, archived, by).await? {
            return Err(unknown().into());
        }
        self.get(id).await?.ok_or_else(|| unknown().into())
    }
}

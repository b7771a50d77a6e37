//! Batch loader of catalog entries.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::dataloader::Loader;

use crate::graphql::loaders::{Loaders, group_by_kind};
use crate::service::error::ServiceError;
use noetl_domain::ids::Id;
use noetl_storage::catalog::CatalogEntry;

/// Key of a catalog entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CatalogKey {
    /// Id of the entry.
    pub id: Id,
    /// Whether to read content, payload, layout and meta.
    pub with_large_columns: bool,
}

impl Loader<CatalogKey> for Loaders {
    type Value = Arc<CatalogEntry>;
    type Error = ServiceError;

    async fn load(&self, keys: &[CatalogKey]) -> Result<HashMap<CatalogKey, Self::Value>, ServiceError> {
        let mut found = HashMap::new();
        for (with_large_columns, group) in group_by_kind(keys, |key| key.with_large_columns) {
            let ids: Vec<i64> = group.iter().map(|key| key.id.get()).collect();
            let catalog = &self.services.catalog;
            let entries = if with_large_columns { catalog.by_ids(&ids).await? } else { catalog.outlines(&ids).await? };
            found.extend(
                entries.into_iter().map(|(id, entry)| (CatalogKey { id: Id::new(id), with_large_columns }, entry)),
            );
        }
        Ok(found)
    }
}

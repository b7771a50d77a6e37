//! Batch loaders of catalog entries and their versions.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::dataloader::Loader;

use crate::loaders::{Loaders, group_by_kind};
use noetl_domain::ids::Id;
use noetl_domain::page::{Page, PageRequest, Total};
use noetl_storage::catalog::{CatalogEntry, EntryRecord};
use noetl_use_cases::error::ServiceError;

/// Key of a catalog entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CatalogKey {
    /// Id of the entry.
    pub id: Id,
    /// Whether to read the document.
    pub with_content: bool,
}

/// Key of the registration and retirement of the entry with this id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordKey(pub i64);

/// Key of a page of a path's versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VersionsKey {
    /// The path.
    pub path: String,
    /// Whether retired versions are included.
    pub include_archived: bool,
    /// Whether to read the documents.
    pub with_content: bool,
    /// Requested page.
    pub request: PageRequest<i16>,
}

/// Key of the number of a path's versions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VersionTotalKey {
    /// The path.
    pub path: String,
    /// Whether retired versions are included.
    pub include_archived: bool,
    /// Number up to which versions are counted.
    pub limit: i64,
}

impl Loader<CatalogKey> for Loaders {
    type Value = Arc<CatalogEntry>;
    type Error = ServiceError;

    async fn load(&self, keys: &[CatalogKey]) -> Result<HashMap<CatalogKey, Self::Value>, ServiceError> {
        let mut found = HashMap::new();
        for (with_content, group) in group_by_kind(keys, |key| key.with_content) {
            let ids: Vec<i64> = group.iter().map(|key| key.id.get()).collect();
            let catalog = &self.services.catalog;
            let entries = if with_content { catalog.by_ids(&ids).await? } else { catalog.outlines(&ids).await? };
            found.extend(entries.into_iter().map(|(id, entry)| (CatalogKey { id: Id::new(id), with_content }, entry)));
        }
        Ok(found)
    }
}

impl Loader<RecordKey> for Loaders {
    type Value = EntryRecord;
    type Error = ServiceError;

    async fn load(&self, keys: &[RecordKey]) -> Result<HashMap<RecordKey, Self::Value>, ServiceError> {
        let ids: Vec<i64> = keys.iter().map(|key| key.0).collect();
        let found = self.services.catalog.records(&ids).await?;
        Ok(found.into_iter().map(|(id, record)| (RecordKey(id), record)).collect())
    }
}

impl Loader<VersionsKey> for Loaders {
    type Value = Arc<Page<CatalogEntry>>;
    type Error = ServiceError;

    async fn load(&self, keys: &[VersionsKey]) -> Result<HashMap<VersionsKey, Self::Value>, ServiceError> {
        let mut found = HashMap::new();
        let kind = |key: &VersionsKey| (key.include_archived, key.with_content, key.request.clone());
        for ((include_archived, with_content, request), group) in group_by_kind(keys, kind) {
            let paths: Vec<String> = group.iter().map(|key| key.path.clone()).collect();
            let catalog = &self.services.catalog;
            let mut pages = catalog.versions(&paths, include_archived, with_content, &request).await?;
            for key in group {
                let page = pages.remove(&key.path).unwrap_or_else(|| request.cut(Vec::new()));
                found.insert(key.clone(), Arc::new(page));
            }
        }
        Ok(found)
    }
}

impl Loader<VersionTotalKey> for Loaders {
    type Value = Total;
    type Error = ServiceError;

    async fn load(&self, keys: &[VersionTotalKey]) -> Result<HashMap<VersionTotalKey, Self::Value>, ServiceError> {
        let mut totals = HashMap::new();
        for ((include_archived, limit), group) in group_by_kind(keys, |key| (key.include_archived, key.limit)) {
            let paths: Vec<String> = group.iter().map(|key| key.path.clone()).collect();
            let found = self.services.catalog.version_totals(&paths, include_archived, limit).await?;
            totals.extend(group.into_iter().filter_map(|key| Some((key.clone(), *found.get(&key.path)?))));
        }
        Ok(totals)
    }
}

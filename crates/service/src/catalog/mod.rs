//! The catalog: registering, retiring, finding and listing entries. Only the retirement of an entry changes, so entries
//! are cached by id without it. The retirement is always read from the database, or compared there in the statement that
//! relies on it. So each replica sees it at once, also that of NoETL's server.

mod archive;
mod names;
mod register;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;

use super::ids::Ids;
use moka::future::Cache;
use noetl_domain::catalog_list::CatalogKey;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{Page, PageRequest, Total};
use noetl_storage::catalog::{self, CatalogEntry, CatalogFilter, EntryRecord, TimeFilter, TimedEntry};
use noetl_storage::pools::Database;
use noetl_use_cases::catalog::ReadCatalog;
use noetl_use_cases::error::ServiceError;

/// Capacity of the cache in bytes.
const CACHED_BYTES: u64 = 64 << 20;

/// Capacity in bytes of the cache of the newest entries of paths.
const CACHED_PATHS_BYTES: u64 = 8 << 20;

/// Source of the newest entry of a path. Retired entries do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Newest {
    /// The cache. A newer entry may exist, or the entry may be retired, so the caller must confirm it.
    Cached,
    /// The database.
    Read,
}

/// Newest entry of a path.
#[derive(Debug, Clone)]
pub struct NewestEntry {
    /// The entry.
    pub entry: Arc<CatalogEntry>,
    /// Whether it is the newest only according to the cache.
    pub cached: bool,
}

/// Use cases of the catalog.
#[derive(Debug, Clone)]
pub struct Catalog {
    cluster: Arc<Database>,
    ids: Arc<Ids>,
    cached: Cache<i64, Arc<CatalogEntry>>,
    /// Id of the newest known entry of each path.
    newest: Cache<String, i64>,
}

#[async_trait]
impl ReadCatalog for Catalog {
    #[tracing::instrument(
        level = "debug", name = "catalog.by_ids", skip_all,
        fields(count = ids.len(), first = ids.first())
    )]
    async fn by_ids(&self, ids: &[i64]) -> Result<HashMap<i64, Arc<CatalogEntry>>, ServiceError> {
        let (mut found, missing) = self.find_cached(ids).await;
        if !missing.is_empty() {
            for entry in catalog::by_ids(&self.cluster, &missing, true).await? {
                let entry = Arc::new(entry);
                self.cached.insert(entry.catalog_id, Arc::clone(&entry)).await;
                found.insert(entry.catalog_id, entry);
            }
        }
        Ok(found)
    }

    async fn outlines(&self, ids: &[i64]) -> Result<HashMap<i64, Arc<CatalogEntry>>, ServiceError> {
        let (mut found, missing) = self.find_cached(ids).await;
        if !missing.is_empty() {
            let outlines = catalog::by_ids(&self.cluster, &missing, false).await?;
            found.extend(outlines.into_iter().map(|entry| (entry.catalog_id, Arc::new(entry))));
        }
        Ok(found)
    }

    #[tracing::instrument(level = "debug", name = "catalog.find", skip_all, fields(path))]
    async fn find(&self, path: &str, version: Option<i16>) -> Result<Option<Arc<CatalogEntry>>, ServiceError> {
        Ok(catalog::find(&self.cluster, path, version).await?.map(Arc::new))
    }

    #[tracing::instrument(level = "debug", name = "catalog.get", skip_all, fields(id = %id))]
    async fn get(&self, id: Id) -> Result<Option<Arc<CatalogEntry>>, ServiceError> {
        Ok(self.by_ids(&[id.get()]).await?.remove(&id.get()))
    }

    #[tracing::instrument(level = "debug", name = "catalog.records", skip_all, fields(count = ids.len()))]
    async fn records(&self, ids: &[i64]) -> Result<HashMap<i64, EntryRecord>, ServiceError> {
        let records = catalog::records(&self.cluster, ids).await?;
        Ok(records.into_iter().map(|record| (record.catalog_id, record)).collect())
    }

    #[tracing::instrument(level = "debug", name = "catalog.list", skip_all)]
    async fn list(
        &self,
        filter: &CatalogFilter,
        with_content: bool,
        page: &PageRequest<CatalogKey>,
    ) -> Result<Page<CatalogEntry>, ServiceError> {
        Ok(page.cut(catalog::list(&self.cluster, filter, with_content, page).await?))
    }

    #[tracing::instrument(level = "debug", name = "catalog.total", skip_all)]
    async fn total(&self, filter: &CatalogFilter, limit: i64) -> Result<Total, ServiceError> {
        Ok(Total::of(catalog::count(&self.cluster, filter, limit + 1).await?, limit))
    }

    #[tracing::instrument(level = "debug", name = "catalog.list_by_time", skip_all)]
    async fn list_by_time(
        &self,
        filter: &TimeFilter,
        with_content: bool,
        page: &PageRequest<ListPosition>,
    ) -> Result<Page<TimedEntry>, ServiceError> {
        Ok(page.cut(catalog::list_by_time(&self.cluster, filter, with_content, page.newest_first()).await?))
    }

    #[tracing::instrument(level = "debug", name = "catalog.total_by_time", skip_all)]
    async fn total_by_time(&self, filter: &TimeFilter, limit: i64) -> Result<Total, ServiceError> {
        Ok(Total::of(catalog::count_by_time(&self.cluster, filter, limit + 1).await?, limit))
    }

    #[tracing::instrument(level = "debug", name = "catalog.versions", skip_all, fields(count = paths.len()))]
    async fn versions(
        &self,
        paths: &[String],
        include_archived: bool,
        with_content: bool,
        page: &PageRequest<i16>,
    ) -> Result<HashMap<String, Page<CatalogEntry>>, ServiceError> {
        let mut groups: HashMap<String, Vec<CatalogEntry>> = HashMap::new();
        for entry in catalog::versions(&self.cluster, paths, include_archived, with_content, page).await? {
            groups.entry(entry.path.clone()).or_default().push(entry);
        }
        Ok(groups.into_iter().map(|(path, entries)| (path, page.cut(entries))).collect())
    }

    #[tracing::instrument(level = "debug", name = "catalog.version_totals", skip_all, fields(count = paths.len()))]
    async fn version_totals(
        &self,
        paths: &[String],
        include_archived: bool,
        limit: i64,
    ) -> Result<HashMap<String, Total>, ServiceError> {
        let counts = catalog::count_versions(&self.cluster, paths, include_archived, limit + 1).await?;
        Ok(counts.into_iter().map(|counted| (counted.path, Total::of(counted.count, limit))).collect())
    }
}

impl Catalog {
    /// Creates the use cases.
    #[must_use]
    pub fn new(cluster: Arc<Database>, ids: Arc<Ids>) -> Self {
        let weight = |_: &i64, entry: &Arc<CatalogEntry>| {
            let content = entry.text().map_or(0, str::len);
            // The text and the parsed document.
            u32::try_from(content * 4 + 512).unwrap_or(u32::MAX)
        };
        let cached = Cache::builder().max_capacity(CACHED_BYTES).weigher(weight).build();
        let weight = |path: &String, _: &i64| u32::try_from(path.len() + 128).unwrap_or(u32::MAX);
        let newest = Cache::builder().max_capacity(CACHED_PATHS_BYTES).weigher(weight).build();
        Self { cluster, ids, cached, newest }
    }

    /// Returns the cached entries, and the ids of the others.
    async fn find_cached(&self, ids: &[i64]) -> (HashMap<i64, Arc<CatalogEntry>>, Vec<i64>) {
        let (mut found, mut missing) = (HashMap::new(), Vec::new());
        for id in ids {
            match self.cached.get(id).await {
                Some(entry) => drop(found.insert(*id, entry)),
                None => missing.push(*id),
            }
        }
        (found, missing)
    }

    /// Returns the newest entry of each path that is not retired, without paths that have none.
    #[tracing::instrument(level = "debug", name = "catalog.newest", skip_all, fields(count = paths.len()))]
    pub async fn newest(&self, paths: &[String]) -> Result<HashMap<String, Arc<CatalogEntry>>, ServiceError> {
        let newest = catalog::newest_ids(&self.cluster, paths, false).await?;
        for path in paths {
            self.newest.invalidate(path).await;
        }
        for (path, id) in &newest {
            self.newest.insert(path.clone(), *id).await;
        }
        let ids: Vec<i64> = newest.iter().map(|(_, id)| *id).collect();
        let entries = self.by_ids(&ids).await?;
        Ok(newest
            .into_iter()
            .filter_map(|(path, id)| entries.get(&id).map(|entry| (path, Arc::clone(entry))))
            .collect())
    }

    /// Returns the newest entry of each path, from the given source, without paths that have none. A path that is not
    /// cached is read.
    pub async fn newest_or_cached(
        &self,
        paths: &BTreeMap<&str, Newest>,
    ) -> Result<HashMap<String, NewestEntry>, ServiceError> {
        let (mut cached, mut unknown) = (HashMap::new(), Vec::new());
        for (path, source) in paths {
            match self.newest.get(*path).await.filter(|_| *source == Newest::Cached) {
                Some(id) => drop(cached.insert((*path).to_owned(), id)),
                None => unknown.push((*path).to_owned()),
            }
        }
        let entries = self.by_ids(&cached.values().copied().collect::<Vec<i64>>()).await?;
        let mut found = HashMap::new();
        for (path, id) in cached {
            match entries.get(&id) {
                Some(entry) => drop(found.insert(path, NewestEntry { entry: Arc::clone(entry), cached: true })),
                None => unknown.push(path),
            }
        }
        if !unknown.is_empty() {
            let read = self.newest(&unknown).await?.into_iter();
            found.extend(read.map(|(path, entry)| (path, NewestEntry { entry, cached: false })));
        }
        Ok(found)
    }

    /// Returns the newest entry of a path that is not retired.
    pub async fn newest_of(&self, path: &str) -> Result<Option<Arc<CatalogEntry>>, ServiceError> {
        Ok(self.newest(&[path.to_owned()]).await?.remove(path))
    }

    /// Returns the newest entry of each path, retired or not, without paths that have none. For paths without a newest
    /// entry that is not retired, these are the paths with only retired versions.
    pub async fn newest_retired(&self, paths: &[String]) -> Result<HashMap<String, Arc<CatalogEntry>>, ServiceError> {
        if paths.is_empty() {
            return Ok(HashMap::new());
        }
        let newest = catalog::newest_ids(&self.cluster, paths, true).await?;
        let entries = self.by_ids(&newest.iter().map(|(_, id)| *id).collect::<Vec<i64>>()).await?;
        let found = newest.into_iter().filter_map(|(path, id)| Some((path, Arc::clone(entries.get(&id)?))));
        Ok(found.collect())
    }

    /// Returns the newest entry of a path that is not retired, or else the newest retired one.
    pub async fn newest_or_retired(&self, path: &str) -> Result<Option<Arc<CatalogEntry>>, ServiceError> {
        if let Some(entry) = self.newest_of(path).await? {
            return Ok(Some(entry));
        }
        Ok(self.newest_retired(&[path.to_owned()]).await?.remove(path))
    }
}

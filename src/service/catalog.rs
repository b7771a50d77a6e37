//! The catalog: registering, finding and listing entries. An entry never changes, so entries are cached by id.

use std::collections::HashMap;
use std::sync::Arc;

use moka::future::Cache;
use serde_json::Value;

use super::bounds::check_json;
use super::error::{Rejection, RejectionCode, ServiceError};
use super::ids::Ids;
use noetl_domain::document::Document;
use noetl_domain::document::field::InvalidField;
use noetl_domain::ids::Id;
use noetl_domain::page::{Page, PageRequest};
use noetl_domain::tenant::Scope;
use noetl_storage::catalog::{self, CatalogEntry, CatalogFilter, CatalogKey, NewEntry};
use noetl_storage::pools::Database;

/// Maximum size of an entry's content in bytes.
pub const MAX_CONTENT_BYTES: usize = 4 << 20;
/// Maximum size in bytes of an entry's meta as JSON.
const MAX_META_BYTES: usize = 1 << 20;
/// Maximum size of a path in bytes.
pub const MAX_PATH_BYTES: usize = 512;
/// Kind of the entries of source subscriptions.
const SUBSCRIPTION: &str = "subscription";
const KINDS: [&str; 6] = ["playbook", SUBSCRIPTION, "agent", "credential", "mcp", "memory"];
/// Capacity of the cache in bytes.
const CACHED_BYTES: u64 = 64 << 20;

/// Use cases of the catalog.
#[derive(Debug, Clone)]
pub struct Catalog {
    cluster: Arc<Database>,
    ids: Arc<Ids>,
    cached: Cache<i64, Arc<CatalogEntry>>,
}

/// Request to register an entry.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Path of the entry; `None`: `metadata.path` of the document, else `metadata.name`.
    pub path: Option<String>,
    /// Kind of the entry; `None`: the `kind` in the document.
    pub kind: Option<String>,
    /// The document, as YAML or JSON.
    pub content: String,
    /// Additional metadata, stored with the entry; `None`: `metadata.labels` of the document.
    pub meta: Option<Value>,
}

impl Catalog {
    /// Creates the use cases.
    #[must_use]
    pub fn new(cluster: Arc<Database>, ids: Arc<Ids>) -> Self {
        let weight = |_: &i64, entry: &Arc<CatalogEntry>| {
            let content = entry.text().map_or(0, str::len);
            // The text, the parsed document, and the parts of it in the other columns.
            u32::try_from(content * 5 + 512).unwrap_or(u32::MAX)
        };
        let cached = Cache::builder().max_capacity(CACHED_BYTES).weigher(weight).build();
        Self { cluster, ids, cached }
    }

    /// Stores the next version of a path. All tenants share the catalog, so only a caller without a tenant may do so.
    #[tracing::instrument(level = "debug", name = "catalog.register", skip_all, fields(path = registration.path))]
    pub async fn register(&self, registration: Registration, scope: &Scope) -> Result<Arc<CatalogEntry>, ServiceError> {
        if *scope != Scope::Unrestricted {
            let message = "all tenants share the catalog; only a caller without a tenant may register entries";
            return Err(Rejection::new(RejectionCode::ForeignTenant, "", message).into());
        }
        let entry = self.parse(registration).await?;
        let registered = catalog::register(&self.cluster, &entry).await?;
        let registered = registered
            .ok_or_else(|| Rejection::invalid("path", "this path has 32767 versions, which is the maximum"))?;
        let registered = Arc::new(registered);
        self.cached.insert(registered.catalog_id, Arc::clone(&registered)).await;
        Ok(registered)
    }

    async fn parse(&self, registration: Registration) -> Result<NewEntry, ServiceError> {
        let Registration { path, kind, content, meta } = registration;
        path.as_deref().map_or(Ok(()), check_path)?;
        if content.len() > MAX_CONTENT_BYTES {
            let message = format!("content has {} bytes; at most {MAX_CONTENT_BYTES} are allowed", content.len());
            return Err(Rejection::new(RejectionCode::PayloadTooLarge, "content", message).into());
        }
        let document = Document::parse(&content).map_err(|error| Rejection::invalid("content", error.to_string()))?;
        let kind = kind_of(kind, &document)?;
        check_json("content", document.value(), usize::MAX)?;
        let path = path_of(path, &document)?;
        if kind == SUBSCRIPTION {
            document.subscription().map_err(invalid_field)?;
        }
        meta.as_ref().map_or(Ok(()), |meta| check_json("meta", meta, MAX_META_BYTES))?;
        Ok(NewEntry { catalog_id: self.ids.next().await?, path, kind, content, document, meta })
    }

    /// Returns the entries with these ids, without unknown ids.
    #[tracing::instrument(
        level = "debug", name = "catalog.by_ids", skip_all,
        fields(count = ids.len(), first = ids.first())
    )]
    pub async fn by_ids(&self, ids: &[i64]) -> Result<HashMap<i64, Arc<CatalogEntry>>, ServiceError> {
        let (mut found, mut missing) = (HashMap::new(), Vec::new());
        for id in ids {
            match self.cached.get(id).await {
                Some(entry) => drop(found.insert(*id, entry)),
                None => missing.push(*id),
            }
        }
        if !missing.is_empty() {
            for entry in catalog::by_ids(&self.cluster, &missing).await? {
                let entry = Arc::new(entry);
                self.cached.insert(entry.catalog_id, Arc::clone(&entry)).await;
                found.insert(entry.catalog_id, entry);
            }
        }
        Ok(found)
    }

    /// Returns the outlines of the entries with these ids, or the complete entries if they are cached, without unknown
    /// ids.
    pub async fn outlines(&self, ids: &[i64]) -> Result<HashMap<i64, Arc<CatalogEntry>>, ServiceError> {
        let (mut found, mut missing) = (HashMap::new(), Vec::new());
        for id in ids {
            match self.cached.get(id).await {
                Some(entry) => drop(found.insert(*id, entry)),
                None => missing.push(*id),
            }
        }
        if !missing.is_empty() {
            let outlines = catalog::outlines(&self.cluster, &missing).await?;
            found.extend(outlines.into_iter().map(|entry| (entry.catalog_id, Arc::new(entry))));
        }
        Ok(found)
    }

    /// Returns the newest entry of each path, without paths that have none.
    #[tracing::instrument(level = "debug", name = "catalog.newest", skip_all, fields(count = paths.len()))]
    pub async fn newest(&self, paths: &[String]) -> Result<HashMap<String, Arc<CatalogEntry>>, ServiceError> {
        let newest = catalog::newest_ids(&self.cluster, paths).await?;
        let ids: Vec<i64> = newest.iter().map(|(_, id)| *id).collect();
        let entries = self.by_ids(&ids).await?;
        Ok(newest
            .into_iter()
            .filter_map(|(path, id)| entries.get(&id).map(|entry| (path, Arc::clone(entry))))
            .collect())
    }

    /// Returns the newest entry of a path.
    pub async fn newest_of(&self, path: &str) -> Result<Option<Arc<CatalogEntry>>, ServiceError> {
        Ok(self.newest(&[path.to_owned()]).await?.remove(path))
    }

    /// Returns an entry by path: the given version, or the newest.
    #[tracing::instrument(level = "debug", name = "catalog.find", skip_all, fields(path))]
    pub async fn find(&self, path: &str, version: Option<i16>) -> Result<Option<Arc<CatalogEntry>>, ServiceError> {
        Ok(catalog::find(&self.cluster, path, version).await?.map(Arc::new))
    }

    /// Returns an entry by id.
    #[tracing::instrument(level = "debug", name = "catalog.get", skip_all, fields(id = %id))]
    pub async fn get(&self, id: Id) -> Result<Option<Arc<CatalogEntry>>, ServiceError> {
        Ok(self.by_ids(&[id.get()]).await?.remove(&id.get()))
    }

    /// Returns a page of outlines with the `wanted` columns, by path, then by version.
    #[tracing::instrument(level = "debug", name = "catalog.list", skip_all)]
    pub async fn list(
        &self,
        filter: &CatalogFilter,
        wanted: &[String],
        page: &PageRequest<CatalogKey>,
    ) -> Result<Page<CatalogEntry>, ServiceError> {
        Ok(page.cut(catalog::list(&self.cluster, filter, wanted, page).await?))
    }
}

/// Checks a path: 1 to 512 bytes, without control characters, and without white space at its ends.
pub fn check_path(path: &str) -> Result<(), Rejection> {
    check_path_in("path", path)
}

fn check_path_in(field: &str, path: &str) -> Result<(), Rejection> {
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        return Err(Rejection::invalid(field, format!("a path has 1 to {MAX_PATH_BYTES} bytes")));
    }
    if path.trim() != path || path.chars().any(char::is_control) {
        return Err(Rejection::invalid(field, "a path has no control characters and no white space at its ends"));
    }
    Ok(())
}

/// Returns the path of a new entry. The request may name a path for a document without `metadata.path`, whose name is
/// then only a name. Otherwise NoETL and this server would register the same document under different paths.
fn path_of(given: Option<String>, document: &Document) -> Result<String, Rejection> {
    match (given, document.path()) {
        (Some(given), Some(path)) if given != path => {
            let message = format!("metadata.path of the content is {path:?}; leave path out, or give the same path");
            Err(Rejection::invalid("path", message))
        }
        (Some(given), _) => Ok(given),
        (None, path) => {
            let field = if path.is_some() { "content.metadata.path" } else { "content.metadata.name" };
            let message = "give path, or metadata.path or metadata.name in the content";
            let path = path.or(document.name()).ok_or_else(|| Rejection::invalid("path", message))?;
            check_path_in(field, path).map(|()| path.to_owned())
        }
    }
}

fn invalid_field(invalid: InvalidField) -> Rejection {
    let message = invalid.to_string();
    Rejection::invalid(&format!("content.{}", invalid.place), message)
}

fn kind_of(given: Option<String>, document: &Document) -> Result<String, Rejection> {
    let field = if given.is_some() { "kind" } else { "content" };
    let named = given.as_deref().or(document.kind());
    let kind = named.map(str::to_ascii_lowercase).unwrap_or_default();
    if KINDS.contains(&kind.as_str()) {
        return Ok(kind);
    }
    let message = format!("the kind (the argument, or `kind` in the content) must be one of: {}", KINDS.join(", "));
    Err(Rejection::invalid(field, message))
}

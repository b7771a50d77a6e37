//! The catalog: registering, retiring, finding and listing entries. Only the retirement of an entry changes.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::bounds::check_json;
use crate::error::{Rejection, RejectionCode, ServiceError};
use noetl_domain::catalog_list::CatalogKey;
use noetl_domain::document::Document;
use noetl_domain::document::field::InvalidField;
use noetl_domain::document::kind::Kind;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{Page, PageRequest, Total};
use noetl_domain::tenant::Caller;
use noetl_storage::catalog::{CatalogEntry, CatalogFilter, EntryRecord, TimeFilter, TimedEntry};

/// Maximum size of an entry's content in bytes.
pub const MAX_CONTENT_BYTES: usize = 4 << 20;

/// Maximum size of a path in bytes.
const MAX_PATH_BYTES: usize = 512;

/// Document to register, or to check only.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Path of the entry; `None`: `metadata.path` of the document, else `metadata.name`.
    pub path: Option<String>,
    /// Kind of the entry; `None`: the `kind` in the document.
    pub kind: Option<Kind>,
    /// The document, as YAML or JSON.
    pub content: String,
}

/// A document that passed every check of a registration.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Path of the entry.
    pub path: String,
    /// Kind of the entry, which is known.
    pub kind: Kind,
    /// Text of the document.
    pub content: String,
    /// The document.
    pub document: Document,
}

/// Result of a registration.
#[derive(Debug, Clone)]
pub enum Registered {
    /// The document is the next version of its path.
    Added(Arc<CatalogEntry>),
    /// The newest version that is not retired has the same kind and text, and no version was added.
    Unchanged(Arc<CatalogEntry>),
}

/// Reading catalog entries.
#[async_trait]
pub trait ReadCatalog: Debug + Send + Sync {
    /// Returns the entries with these ids, without unknown ids.
    async fn by_ids(&self, ids: &[i64]) -> Result<HashMap<i64, Arc<CatalogEntry>>, ServiceError>;

    /// Returns the outlines of the entries with these ids, or the complete entries if they are cached, without unknown
    /// ids.
    async fn outlines(&self, ids: &[i64]) -> Result<HashMap<i64, Arc<CatalogEntry>>, ServiceError>;

    /// Returns an entry by path: the given version, retired or not, or the newest version that is not retired.
    async fn find(&self, path: &str, version: Option<i16>) -> Result<Option<Arc<CatalogEntry>>, ServiceError>;

    /// Returns an entry by id.
    async fn get(&self, id: Id) -> Result<Option<Arc<CatalogEntry>>, ServiceError>;

    /// Returns the registration and retirement of these entries, as they are in the database, without unknown ids.
    async fn records(&self, ids: &[i64]) -> Result<HashMap<i64, EntryRecord>, ServiceError>;

    /// Returns a page of a list, by path, then by version. Without `with_content`, the entries are outlines.
    async fn list(
        &self,
        filter: &CatalogFilter,
        with_content: bool,
        page: &PageRequest<CatalogKey>,
    ) -> Result<Page<CatalogEntry>, ServiceError>;

    /// Counts the entries of a list, up to `limit`.
    async fn total(&self, filter: &CatalogFilter, limit: i64) -> Result<Total, ServiceError>;

    /// Returns a page of a list by registration or retirement, last first. Without `with_content`, the entries are
    /// outlines.
    async fn list_by_time(
        &self,
        filter: &TimeFilter,
        with_content: bool,
        page: &PageRequest<ListPosition>,
    ) -> Result<Page<TimedEntry>, ServiceError>;

    /// Counts the entries of a list by registration or retirement, up to `limit`.
    async fn total_by_time(&self, filter: &TimeFilter, limit: i64) -> Result<Total, ServiceError>;

    /// Returns a page of the versions of each path, newest first; retired ones only with `include_archived`. Without
    /// `with_content`, the entries are outlines.
    async fn versions(
        &self,
        paths: &[String],
        include_archived: bool,
        with_content: bool,
        page: &PageRequest<i16>,
    ) -> Result<HashMap<String, Page<CatalogEntry>>, ServiceError>;

    /// Counts the versions of each path, up to `limit` for each; retired ones only with `include_archived`.
    async fn version_totals(
        &self,
        paths: &[String],
        include_archived: bool,
        limit: i64,
    ) -> Result<HashMap<String, Total>, ServiceError>;
}

/// Registering catalog entries.
#[async_trait]
pub trait RegisterEntries: Debug + Send + Sync {
    /// Stores the next version of a path. With `only_if_changed`, a document that equals the newest version that is not
    /// retired is not stored. All tenants share the catalog, so only a caller without a tenant may register entries.
    async fn register(
        &self,
        registration: Registration,
        only_if_changed: bool,
        caller: &Caller,
    ) -> Result<Registered, ServiceError>;
}

/// Retiring and restoring catalog entries.
#[async_trait]
pub trait ArchiveEntries: Debug + Send + Sync {
    /// Retires an entry, or restores it if `archived` is false; with `all_versions`, all versions of its path. Entries
    /// that have the wanted state stay unchanged. Returns the entry. All tenants share the catalog, so only a caller
    /// without a tenant may do this.
    async fn set_archived(
        &self,
        id: Id,
        all_versions: bool,
        archived: bool,
        caller: &Caller,
    ) -> Result<Arc<CatalogEntry>, ServiceError>;
}

/// All use cases of the catalog.
pub trait Catalog: ReadCatalog + RegisterEntries + ArchiveEntries {}

impl<T: ReadCatalog + RegisterEntries + ArchiveEntries> Catalog for T {}

impl Registration {
    /// Checks the document, its path and its kind.
    pub fn check(self) -> Result<Draft, Rejection> {
        let Self { path, kind, content } = self;
        path.as_deref().map_or(Ok(()), check_path)?;
        if content.len() > MAX_CONTENT_BYTES {
            let message = format!("content has {} bytes; at most {MAX_CONTENT_BYTES} are allowed", content.len());
            return Err(Rejection::new(RejectionCode::PayloadTooLarge, "content", message));
        }
        let document = Document::parse(&content).map_err(|error| Rejection::invalid("content", error.to_string()))?;
        let kind = kind_of(kind, &document)?;
        check_json("content", document.value(), usize::MAX)?;
        let path = path_of(path, &document)?;
        if kind == Kind::Subscription {
            document.subscription().map_err(|invalid| invalid_field(&invalid))?;
        }
        Ok(Draft { path, kind, content, document })
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

/// Returns the rejection of a field of the document. An index of a list is a part of the field's path.
fn invalid_field(invalid: &InvalidField) -> Rejection {
    let place = invalid.place.replace('[', ".").replace(']', "");
    Rejection::invalid(&format!("content.{place}"), invalid.to_string())
}

fn kind_of(given: Option<Kind>, document: &Document) -> Result<Kind, Rejection> {
    let field = if given.is_some() { "kind" } else { "content" };
    match given.unwrap_or_else(|| Kind::from_stored(document.kind().unwrap_or_default())) {
        Kind::Unknown => {
            let names: Vec<&str> = Kind::KNOWN.iter().filter_map(|kind| kind.name()).collect();
            let message =
                format!("the kind (the argument, or `kind` in the content) must be one of: {}", names.join(", "));
            Err(Rejection::invalid(field, message))
        }
        kind => Ok(kind),
    }
}

//! Catalog entries.
//!
//! An execution names the catalog entry that it runs, and an entry lists its executions. So that the two folders do not
//! depend on each other, the list is defined in `execution::of_entry`, as the complex part of [`CatalogEntry`].

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result, SimpleObject};

use super::kind::CatalogKind;
use super::loaders::{CatalogKey, RecordKey, VersionTotalKey, VersionsKey};
use super::parts::{self, DocumentParts};
use crate::access::READ;
use crate::connection::{Countable, PageArguments, connection, selects_item_field, time_cursor};
use crate::context::Services;
use crate::errors::field_error;
use crate::loaders::BatchLoader;
use crate::plain::{Plain, PlainValue, Reader};
use crate::scalars::Time;
use noetl_domain::cursor::{CursorKind, encode};
use noetl_domain::document::Document;
use noetl_domain::document::kind::Kind;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::node_id::NodeId;
use noetl_domain::page::{Page, Total};
use noetl_storage::catalog as storage;
use noetl_use_cases::error::ServiceError;

/// One version of a catalog path. Its document never changes.
#[derive(Debug, Clone, SimpleObject)]
#[graphql(complex)]
pub struct CatalogEntry {
    #[graphql(flatten)]
    own: EntryFields,
    #[graphql(flatten)]
    parts: DocumentParts,
}

impl From<Arc<storage::CatalogEntry>> for CatalogEntry {
    fn from(row: Arc<storage::CatalogEntry>) -> Self {
        Self { own: EntryFields(Arc::clone(&row)), parts: DocumentParts::Stored(row) }
    }
}

impl CatalogEntry {
    /// Resolves the field `id` of the interface `Node`.
    pub fn id(&self, _: &Context<'_>) -> std::future::Ready<Result<ID>> {
        std::future::ready(Ok(self.own.node_id()))
    }

    /// Returns the entry with this id through the batch loader. Its document is read only if a field needs it.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        let selects = |field: &str| ctx.look_ahead().field(field).exists();
        let with_content = selects("content") || parts::FIELDS.into_iter().any(selects);
        Self::load_with(ctx, CatalogKey { id, with_content }).await
    }

    /// Returns the entry with this id and its document through the batch loader.
    pub async fn load_complete(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        Self::load_with(ctx, CatalogKey { id, with_content: true }).await
    }

    async fn load_with(ctx: &Context<'_>, key: CatalogKey) -> Result<Option<Self>> {
        Ok(ctx.data::<BatchLoader>()?.load_one(key).await.map_err(field_error)?.map(Self::from))
    }

    /// Returns the row of the entry.
    #[must_use]
    pub fn row(&self) -> &storage::CatalogEntry {
        &self.own.0
    }

    /// Returns the document if it was read and has the form of a document.
    #[must_use]
    pub fn document(&self) -> Option<&Document> {
        self.parts.read()
    }
}

/// Returns whether the operation selects a field of the items that needs the document.
pub(super) fn selects_content(ctx: &Context<'_>) -> bool {
    selects_item_field(ctx, "content") || parts::FIELDS.into_iter().any(|field| selects_item_field(ctx, field))
}

/// Fields of a catalog entry that do not refer to executions.
#[derive(Debug, Clone)]
struct EntryFields(Arc<storage::CatalogEntry>);

impl EntryFields {
    fn node_id(&self) -> ID {
        NodeId::CatalogEntry(Id::new(self.0.catalog_id)).to_string().into()
    }

    /// Returns the registration and retirement of the entry through the batch loader.
    async fn record(&self, ctx: &Context<'_>) -> Result<Option<storage::EntryRecord>> {
        ctx.data::<BatchLoader>()?.load_one(RecordKey(self.0.catalog_id)).await.map_err(field_error)
    }
}

impl Plain for CatalogEntry {
    fn plain(&self, field: &str, reader: &Reader<'_>) -> Option<PlainValue<'_>> {
        let row = self.row();
        Some(match field {
            "id" => self.own.node_id().0.into(),
            "catalogId" => Id::new(row.catalog_id).into(),
            "path" => (&row.path).into(),
            "version" => i32::from(row.version).into(),
            "kind" => PlainValue::of_enum::<CatalogKind>(Kind::from_stored(&row.kind)),
            "kindText" => row.kind.to_lowercase().into(),
            "content" if reader.may_read => row.text().into(),
            "createdAt" => row.created_at.into(),
            _ => return None,
        })
    }
}

#[Object]
impl EntryFields {
    /// Id of the entry, unique over all types: `catalog-<number>`.
    async fn id(&self) -> ID {
        self.node_id()
    }

    /// Number of the entry, which other objects name as `catalogId`.
    async fn catalog_id(&self) -> ID {
        self.0.catalog_id.into()
    }

    /// Catalog path, a name that users choose. All versions of the path share it.
    async fn path(&self) -> &str {
        &self.0.path
    }

    /// Version of the path, counted from 1.
    async fn version(&self) -> i32 {
        self.0.version.into()
    }

    /// Kind.
    async fn kind(&self) -> CatalogKind {
        Kind::from_stored(&self.0.kind).into()
    }

    /// Name of the kind as stored, in lower case. It differs from the name of `kind` only if that is `UNKNOWN`.
    async fn kind_text(&self) -> String {
        self.0.kind.to_lowercase()
    }

    /// Document as it was registered, in YAML or JSON.
    #[graphql(guard = "READ")]
    async fn content(&self) -> Option<&str> {
        self.0.text()
    }

    /// Time of registration.
    async fn created_at(&self) -> Time {
        Time(self.0.created_at)
    }

    /// Subject of the caller that registered the entry; null if the server did not identify it.
    #[graphql(guard = "READ")]
    async fn registered_by(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        Ok(self.record(ctx).await?.and_then(|record| record.registered_by))
    }

    /// Time at which the entry was retired; null if it is not retired. A retired entry is not the newest version of its
    /// path. An execution runs it only if the request names the entry by its id.
    #[graphql(guard = "READ")]
    async fn archived_at(&self, ctx: &Context<'_>) -> Result<Option<Time>> {
        Ok(self.record(ctx).await?.and_then(|record| record.archived_at).map(Time))
    }

    /// Subject of the caller that retired the entry; null if the server did not identify it, or if the entry is not
    /// retired.
    #[graphql(guard = "READ")]
    async fn archived_by(&self, ctx: &Context<'_>) -> Result<Option<String>> {
        Ok(self.record(ctx).await?.and_then(|record| record.archived_by))
    }

    /// Versions of the path, newest first.
    #[graphql(guard = "READ")]
    async fn versions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Whether retired versions are included (default false).")] include_archived: Option<bool>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<CatalogEntryConnection>> {
        let page = PageArguments { first, after, last, before };
        let version = |position: &[u8]| position.try_into().ok().map(i16::from_be_bytes);
        let request = page.request(CursorKind::CatalogVersion, version).map_err(field_error)?;
        let (path, include_archived) = (self.0.path.clone(), include_archived.unwrap_or(false));
        let key = VersionsKey { path: path.clone(), include_archived, with_content: selects_content(ctx), request };
        let found = ctx.data::<BatchLoader>()?.load_one(key).await.map_err(field_error)?;
        let page = Arc::unwrap_or_clone(found.unwrap_or_default());
        Ok(Some(entries(CatalogList::Versions { path, include_archived }, page, version_cursor)))
    }
}

/// Returns the connection for a page of entries.
pub(super) fn entries(
    list: CatalogList,
    page: Page<storage::CatalogEntry>,
    cursor: impl Fn(&storage::CatalogEntry) -> String + Send + Sync + 'static,
) -> CatalogEntryConnection {
    let node = |entry| CatalogEntry::from(Arc::new(entry));
    CatalogEntryConnection::new(list, page, Vec::new(), node, move |entry| cursor(entry.row()))
}

/// Returns the connection for a page of entries by time, with cursors of this kind.
pub(super) fn entries_by_time(
    filter: storage::TimeFilter,
    page: Page<storage::TimedEntry>,
    kind: CursorKind,
) -> CatalogEntryConnection {
    let position = |timed: &storage::TimedEntry| (timed.entry.catalog_id, timed.position);
    let positions: HashMap<i64, ListPosition> = page.items.iter().map(position).collect();
    let node = |timed: storage::TimedEntry| CatalogEntry::from(Arc::new(timed.entry));
    let cursor = move |entry: &CatalogEntry| {
        let position = positions.get(&entry.row().catalog_id);
        position.map(|position| time_cursor(kind, *position)).unwrap_or_default()
    };
    CatalogEntryConnection::new(CatalogList::ByTime(filter), page, Vec::new(), node, cursor)
}

/// Returns the cursor of an entry in the list of its path's versions.
fn version_cursor(entry: &storage::CatalogEntry) -> String {
    encode(CursorKind::CatalogVersion, &entry.version.to_be_bytes())
}

/// A list of catalog entries.
#[derive(Debug)]
pub enum CatalogList {
    /// Entries that match a filter.
    Filtered(storage::CatalogFilter),
    /// Entries by the time of their registration or retirement.
    ByTime(storage::TimeFilter),
    /// Versions of a path.
    Versions {
        /// The path.
        path: String,
        /// Whether retired versions are included.
        include_archived: bool,
    },
}

impl Countable for CatalogList {
    async fn total(&self, ctx: &Context<'_>, limit: i64) -> std::result::Result<Total, ServiceError> {
        match self {
            Self::Filtered(filter) => ctx.data_unchecked::<Services>().catalog.total(filter, limit).await,
            Self::ByTime(filter) => ctx.data_unchecked::<Services>().catalog.total_by_time(filter, limit).await,
            Self::Versions { path, include_archived } => {
                let key = VersionTotalKey { path: path.clone(), include_archived: *include_archived, limit };
                Ok(ctx.data_unchecked::<BatchLoader>().load_one(key).await?.unwrap_or(Total::of(0, limit)))
            }
        }
    }
}

connection!(CatalogEntryConnection, CatalogEntryEdge, CatalogEntry, CatalogList);

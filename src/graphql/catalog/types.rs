//! Catalog entries.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};
use chrono::{DateTime, Utc};

use super::loaders::CatalogKey;
use crate::graphql::access::READ;
use crate::graphql::connection::connection;
use crate::graphql::errors::field_error;
use crate::graphql::loaders::BatchLoader;
use crate::graphql::scalars::{Json, JsonText};
use noetl_domain::document::Document;
use noetl_domain::ids::Id;
use noetl_domain::node_id::NodeId;
use noetl_storage::catalog as storage;

/// Fields of an entry that are read only if they are selected.
pub(super) const LARGE_FIELDS: [&str; 5] = ["content", "document", "payload", "layout", "meta"];

/// One version of a catalog path.
#[derive(Debug, Clone)]
pub struct CatalogEntry(pub Arc<storage::CatalogEntry>);

impl CatalogEntry {
    /// Returns the entry with this id through the batch loader. Its large fields are read only if they are selected.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        let with_large_columns = LARGE_FIELDS.iter().any(|field| ctx.look_ahead().field(field).exists());
        Self::load_with(ctx, CatalogKey { id, with_large_columns }).await
    }

    /// Returns the entry with this id and its document through the batch loader.
    pub async fn load_complete(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        Self::load_with(ctx, CatalogKey { id, with_large_columns: true }).await
    }

    async fn load_with(ctx: &Context<'_>, key: CatalogKey) -> Result<Option<Self>> {
        Ok(ctx.data::<BatchLoader>()?.load_one(key).await.map_err(field_error)?.map(Self))
    }

    /// Returns the document if it was read and has the form of a document.
    #[must_use]
    pub fn document(&self) -> Option<&Document> {
        self.0.document()?.ok()
    }
}

/// One version of a catalog path. A version never changes.
#[Object]
impl CatalogEntry {
    /// Id of the entry, unique over all types: `catalog-<number>`.
    pub async fn id(&self) -> ID {
        NodeId::CatalogEntry(Id::new(self.0.catalog_id)).to_string().into()
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

    /// Kind in lower case, such as `playbook`, `agent` or `subscription`.
    async fn kind(&self) -> String {
        self.0.kind.to_lowercase()
    }

    /// Document as it was registered, in YAML or JSON.
    #[graphql(guard = "READ")]
    async fn content(&self) -> Option<&str> {
        self.0.text()
    }

    /// Document, parsed into JSON; null if another program stored a text that is no document.
    #[graphql(guard = "READ", name = "document")]
    async fn parsed_document(&self) -> Option<Json> {
        self.document().map(|document| Json(document.value().clone()))
    }

    /// Default workload of the entry's executions: `workload` of the document, as stored. Entries that were registered
    /// before the catalog had NoETL's form contain the whole document here.
    #[graphql(guard = "READ")]
    async fn payload(&self) -> Option<JsonText> {
        self.0.payload.clone().map(JsonText)
    }

    /// Steps of the entry: `workflow` of the document, as stored.
    #[graphql(guard = "READ")]
    async fn layout(&self) -> Option<JsonText> {
        self.0.layout.clone().map(JsonText)
    }

    /// Labels of the document (`metadata.labels`), or additional data from the registration.
    #[graphql(guard = "READ")]
    async fn meta(&self) -> Option<JsonText> {
        self.0.meta.clone().map(JsonText)
    }

    /// Time of registration.
    async fn created_at(&self) -> DateTime<Utc> {
        self.0.created_at
    }
}

connection!(CatalogEntryConnection, CatalogEntryEdge, CatalogEntry);

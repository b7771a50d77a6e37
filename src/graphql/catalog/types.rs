//! Catalog entries.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};
use chrono::{DateTime, Utc};

use super::loaders::CatalogKey;
use crate::graphql::access::READ;
use crate::graphql::connection::connection;
use crate::graphql::errors::field_error;
use crate::graphql::loaders::BatchLoader;
use crate::graphql::scalars::JsonText;
use noetl_domain::ids::Id;
use noetl_storage::catalog as storage;

/// Fields of an entry that are read only if they are selected.
pub(super) const LARGE_COLUMNS: [&str; 3] = ["content", "payload", "meta"];

/// One version of a catalog path.
#[derive(Debug, Clone)]
pub struct CatalogEntry(pub Arc<storage::CatalogEntry>);

impl CatalogEntry {
    /// Returns the entry with this id through the batch loader. Its large fields are read only if they are selected.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        let with_large_columns = LARGE_COLUMNS.iter().any(|field| ctx.look_ahead().field(field).exists());
        let entry = ctx.data::<BatchLoader>()?.load_one(CatalogKey { id, with_large_columns }).await;
        Ok(entry.map_err(field_error)?.map(Self))
    }
}

/// One version of a catalog path. A version never changes.
#[Object]
impl CatalogEntry {
    /// Id of the entry.
    async fn id(&self) -> ID {
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
        self.0.content.as_deref()
    }

    /// Content, parsed into JSON.
    #[graphql(guard = "READ")]
    async fn payload(&self) -> Option<JsonText> {
        self.0.payload.as_ref().map(|payload| JsonText(payload.text().clone()))
    }

    /// Additional data from the registration.
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

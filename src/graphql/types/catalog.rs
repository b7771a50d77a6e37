//! Catalog entries.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};
use chrono::{DateTime, Utc};

use crate::domain::ids::Id;
use crate::graphql::access::READ;
use crate::graphql::errors::fault;
use crate::graphql::loaders::{BatchLoader, CatalogKey};
use crate::graphql::scalars::JsonText;
use crate::storage::catalog as storage;

/// One version of a catalog path.
#[derive(Debug, Clone)]
pub struct CatalogEntry(pub Arc<storage::CatalogEntry>);

impl CatalogEntry {
    /// The entry with this id, through the loader; its outline, unless the field selects more.
    pub async fn load(ctx: &Context<'_>, id: Id) -> Result<Option<Self>> {
        let whole = ["content", "payload", "meta"].iter().any(|field| ctx.look_ahead().field(field).exists());
        let entry = ctx.data::<BatchLoader>()?.load_one(CatalogKey { id, whole }).await;
        Ok(entry.map_err(fault)?.map(Self))
    }
}

/// One version of a catalog path. It never changes.
#[Object]
impl CatalogEntry {
    /// The entry's id.
    async fn id(&self) -> ID {
        self.0.catalog_id.into()
    }

    /// What users call it.
    async fn path(&self) -> &str {
        &self.0.path
    }

    /// From 1 up, per path.
    async fn version(&self) -> i32 {
        self.0.version.into()
    }

    /// Such as `playbook`, `agent` or `subscription`, in lower case.
    async fn kind(&self) -> String {
        self.0.kind.to_lowercase()
    }

    /// As it was registered, in YAML or JSON.
    #[graphql(guard = "READ")]
    async fn content(&self) -> Option<&str> {
        self.0.content.as_deref()
    }

    /// The parsed content.
    #[graphql(guard = "READ")]
    async fn payload(&self) -> Option<JsonText> {
        self.0.payload.as_ref().map(|payload| JsonText(payload.text().clone()))
    }

    /// What else the registration said.
    #[graphql(guard = "READ")]
    async fn meta(&self) -> Option<JsonText> {
        self.0.meta.clone().map(JsonText)
    }

    /// When it was registered.
    async fn created_at(&self) -> DateTime<Utc> {
        self.0.created_at
    }
}

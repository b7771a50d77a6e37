//! Inputs of the catalog.

use async_graphql::InputObject;

use crate::graphql::filters::{check_prefix, check_texts};
use crate::graphql::scalars::Json;
use crate::service::catalog::Registration;
use crate::service::error::Rejection;
use noetl_storage::catalog;

/// Filter for catalog entries. An omitted list or prefix matches everything.
#[derive(Debug, Clone, InputObject)]
pub struct CatalogFilter {
    /// Only entries of these kinds, in upper or lower case (at most 1000).
    kinds: Option<Vec<String>>,
    /// Only entries whose path begins with this text.
    path_prefix: Option<String>,
    /// Whether to return only the newest version of each path (default true).
    #[graphql(default = true)]
    latest_only: bool,
}

impl Default for CatalogFilter {
    fn default() -> Self {
        Self { kinds: None, path_prefix: None, latest_only: true }
    }
}

impl CatalogFilter {
    /// Converts the input to the storage layer's filter, with the kinds in lower case.
    pub fn parse(self) -> Result<catalog::CatalogFilter, Rejection> {
        self.kinds.as_ref().map_or(Ok(()), |kinds| check_texts("filter.kinds", kinds))?;
        Ok(catalog::CatalogFilter {
            kinds: self.kinds.map(|kinds| kinds.iter().map(|kind| kind.to_lowercase()).collect()),
            path_prefix: check_prefix("filter.pathPrefix", self.path_prefix)?,
            latest_only: self.latest_only,
        })
    }
}

/// Catalog entry to register.
#[derive(Debug, InputObject)]
pub struct RegisterCatalogEntryInput {
    /// Catalog path (1 to 512 bytes; default: `metadata.path` of the content, else `metadata.name`). If the content has
    /// `metadata.path`, it must be the same path.
    pub path: Option<String>,
    /// Kind, such as `playbook`, `agent` or `subscription`, in upper or lower case (default: the `kind` in the
    /// content).
    kind: Option<String>,
    /// Document, a map in YAML or JSON (at most 4 MiB), in the form that NoETL reads. The `spec` of a source subscription
    /// is checked.
    content: String,
    /// Additional data to store with the entry (at most 1 MiB as JSON; default: `metadata.labels` of the content).
    meta: Option<Json>,
}

impl From<RegisterCatalogEntryInput> for Registration {
    fn from(input: RegisterCatalogEntryInput) -> Self {
        let RegisterCatalogEntryInput { path, kind, content, meta } = input;
        Self { path, kind, content, meta: meta.map(|meta| meta.0) }
    }
}

//! Catalog entries that are checked, but not registered.

use std::sync::Arc;

use async_graphql::SimpleObject;

use super::kind::CatalogKind;
use super::parts::DocumentParts;
use crate::errors::UserError;
use noetl_use_cases::catalog::Draft;

/// Catalog entry that would be registered.
#[derive(Debug, SimpleObject)]
pub struct CatalogEntryDraft {
    /// Catalog path.
    path: String,
    /// Kind.
    kind: CatalogKind,
    #[graphql(flatten)]
    parts: DocumentParts,
}

impl From<Draft> for CatalogEntryDraft {
    fn from(Draft { path, kind, content, document }: Draft) -> Self {
        Self { path, kind: kind.into(), parts: DocumentParts::Draft(Arc::new(document), content.into()) }
    }
}

/// Result of the validation of a catalog entry.
#[derive(Debug, SimpleObject)]
pub(super) struct CatalogEntryValidation {
    /// Entry that a registration would add; null if it would be refused.
    pub(super) entry: Option<CatalogEntryDraft>,
    /// Reasons a registration would be refused; empty if it would be carried out.
    pub(super) user_errors: Vec<UserError>,
}

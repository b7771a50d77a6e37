//! Payload of the catalog's mutation.

use async_graphql::SimpleObject;

use super::types::CatalogEntry;
use crate::graphql::audit::AuditedPayload;
use crate::graphql::errors::UserError;

/// Result of registering a catalog entry.
#[derive(Debug, SimpleObject)]
pub(super) struct RegisterCatalogEntryPayload {
    /// Version that was added; null if the request was refused.
    pub(super) catalog_entry: Option<CatalogEntry>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

impl AuditedPayload for RegisterCatalogEntryPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.catalog_entry.iter().map(|entry| entry.0.catalog_id.to_string()).collect()
    }
}

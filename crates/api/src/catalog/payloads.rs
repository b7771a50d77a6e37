//! Payloads of the catalog's mutations.

use async_graphql::{Enum, SimpleObject};

use super::types::CatalogEntry;
use crate::audit::{AuditedPayload, audited_payload};
use crate::errors::UserError;
use noetl_use_cases::catalog::Registered;

/// Outcome of the registration of a catalog entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(super) enum RegisterCatalogEntryOutcome {
    /// A version was added.
    Added,
    /// No version was added, because the newest version that is not retired has the same kind and content.
    Unchanged,
}

/// Result of registering a catalog entry.
#[derive(Debug, SimpleObject)]
pub(super) struct RegisterCatalogEntryPayload {
    /// Version that was added, or the newest version if `outcome` is `UNCHANGED`; null if the request was refused.
    catalog_entry: Option<CatalogEntry>,
    /// Outcome of the registration; null if the request was refused.
    outcome: Option<RegisterCatalogEntryOutcome>,
    /// Reasons the request was refused; empty if it was carried out.
    user_errors: Vec<UserError>,
}

impl RegisterCatalogEntryPayload {
    /// Creates the payload from the result of a registration.
    pub(super) fn new(registered: Option<Registered>, user_errors: Vec<UserError>) -> Self {
        let (entry, outcome) = match registered {
            Some(Registered::Added(entry)) => (Some(entry), Some(RegisterCatalogEntryOutcome::Added)),
            Some(Registered::Unchanged(entry)) => (Some(entry), Some(RegisterCatalogEntryOutcome::Unchanged)),
            None => (None, None),
        };
        Self { catalog_entry: entry.map(CatalogEntry::from), outcome, user_errors }
    }
}

impl AuditedPayload for RegisterCatalogEntryPayload {
    fn user_errors(&self) -> &[UserError] {
        &self.user_errors
    }

    fn ids(&self) -> Vec<String> {
        self.catalog_entry.iter().map(|entry| entry.row().catalog_id.to_string()).collect()
    }
}

/// Result of retiring or restoring catalog entries.
#[derive(Debug, SimpleObject)]
pub(super) struct CatalogArchivingPayload {
    /// Entry that the input names; null if the request was refused.
    pub(super) catalog_entry: Option<CatalogEntry>,
    /// Reasons the request was refused; empty if it was carried out.
    pub(super) user_errors: Vec<UserError>,
}

audited_payload!(CatalogArchivingPayload);

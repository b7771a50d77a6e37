//! Readers that may share what is rendered for one of them.

use std::sync::Arc;

use async_graphql::Context;

use super::selection::Selection;
use noetl_auth::principal::{Capabilities, Principal};

/// Readers that may receive the same text. For other capabilities, other fields are refused; for another tenant, other
/// objects do not exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Audience {
    selection: Selection,
    capabilities: Capabilities,
    tenant: Option<Arc<str>>,
}

impl Audience {
    /// Returns the readers with the same selection, capabilities and tenant as this reader.
    #[must_use]
    pub fn of(selection: Selection, reader: &Principal) -> Self {
        Self { selection, capabilities: reader.capabilities, tenant: reader.tenant.clone() }
    }

    /// Returns the readers that may share a text with an operation; `None` if its selection is unknown.
    #[must_use]
    pub fn of_operation(ctx: &Context<'_>, reader: &Principal) -> Option<Self> {
        ctx.data_opt::<Selection>().map(|selection| Self::of(*selection, reader))
    }
}

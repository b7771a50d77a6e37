//! Mutation of the catalog.

use async_graphql::{Context, Object, Result};

use super::inputs::RegisterCatalogEntryInput;
use super::payloads::RegisterCatalogEntryPayload;
use super::types::CatalogEntry;
use crate::graphql::access::{CATALOG, scope};
use crate::graphql::audit::audited;
use crate::graphql::context::Services;
use crate::graphql::errors::result_or_user_error;

/// Mutation of the catalog.
#[derive(Debug, Default)]
pub struct CatalogMutation;

#[Object]
impl CatalogMutation {
    /// Adds the next version of a catalog path. All tenants share the catalog, so a caller with a tenant is refused
    /// with `FOREIGN_TENANT`.
    #[graphql(guard = "CATALOG")]
    async fn register_catalog_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Catalog entry to register.")] input: RegisterCatalogEntryInput,
    ) -> Result<RegisterCatalogEntryPayload> {
        audited(ctx, input.path.clone(), async {
            let registered = ctx.data::<Services>()?.catalog.register(input.into(), &scope(ctx)?).await;
            let (catalog_entry, user_errors) = result_or_user_error(registered.map(CatalogEntry))?;
            Ok(RegisterCatalogEntryPayload { catalog_entry, user_errors })
        })
        .await
    }
}

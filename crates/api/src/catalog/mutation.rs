//! Mutation of the catalog.

use async_graphql::{Context, Object, Result};

use super::inputs::RegisterCatalogEntryInput;
use super::payloads::RegisterCatalogEntryPayload;
use crate::access::{CATALOG, scope};
use crate::audit::audited;
use crate::context::Services;
use crate::errors::result_or_user_error;
use crate::guards::WrittenInput;

/// Mutation of the catalog.
#[derive(Debug, Default)]
pub struct CatalogMutation;

#[Object]
impl CatalogMutation {
    /// Adds the next version of a catalog path. To check a document only, query `validateCatalogEntry`. All tenants share the catalog, so a caller with a tenant is refused
    /// with `FOREIGN_TENANT`.
    #[graphql(guard = "CATALOG")]
    async fn register_catalog_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Catalog entry to register.")] input: RegisterCatalogEntryInput,
    ) -> Result<Option<RegisterCatalogEntryPayload>> {
        audited(ctx, input.path.clone(), async {
            let only_if_changed = input.only_if_changed;
            let registered = match WrittenInput::new(ctx).check("onlyIfChanged") {
                Ok(()) => {
                    let catalog = &ctx.data::<Services>()?.catalog;
                    catalog.register(input.into(), only_if_changed, &scope(ctx)?).await
                }
                Err(rejection) => Err(rejection.into()),
            };
            let (registered, user_errors) = result_or_user_error(registered)?;
            Ok(RegisterCatalogEntryPayload::new(registered, user_errors))
        })
        .await
        .map(Some)
    }
}

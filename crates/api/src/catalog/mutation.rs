//! Mutations of the catalog.

use async_graphql::{Context, Object, Result};

use super::inputs::{CatalogArchivingInput, RegisterCatalogEntryInput};
use super::payloads::{CatalogArchivingPayload, RegisterCatalogEntryPayload};
use super::types::CatalogEntry;
use crate::access::{CATALOG, caller};
use crate::audit::audited;
use crate::context::Services;
use crate::errors::result_or_user_error;
use crate::guards::WrittenInput;
use crate::scalars::parse_catalog_id;

/// Mutations of the catalog.
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
        audited(ctx, input.entry.path.clone(), async {
            let registered = match WrittenInput::new(ctx).check("onlyIfChanged") {
                Ok(()) => {
                    let catalog = &ctx.data::<Services>()?.catalog;
                    catalog.register(input.entry.into(), input.only_if_changed, &caller(ctx)?).await
                }
                Err(rejection) => Err(rejection.into()),
            };
            let (registered, user_errors) = result_or_user_error(registered)?;
            Ok(RegisterCatalogEntryPayload::new(registered, user_errors))
        })
        .await
        .map(Some)
    }

    /// Retires a version of a catalog path, or all of its versions. A retired version is not the newest of its path, and
    /// lists leave it out. Executions that have begun continue, and source subscriptions keep their status. A version that
    /// is retired stays unchanged, and the request succeeds. All tenants share the catalog, so a caller with a tenant is
    /// refused with `FOREIGN_TENANT`.
    #[graphql(guard = "CATALOG")]
    async fn archive_catalog_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Versions to retire.")] input: CatalogArchivingInput,
    ) -> Result<Option<CatalogArchivingPayload>> {
        set_archived(ctx, input, true).await.map(Some)
    }

    /// Restores a retired version of a catalog path, or all of its versions. A version that is not retired stays
    /// unchanged, and the request succeeds. A caller with a tenant is refused with `FOREIGN_TENANT`.
    #[graphql(guard = "CATALOG")]
    async fn restore_catalog_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Versions to restore.")] input: CatalogArchivingInput,
    ) -> Result<Option<CatalogArchivingPayload>> {
        set_archived(ctx, input, false).await.map(Some)
    }
}

async fn set_archived(
    ctx: &Context<'_>,
    input: CatalogArchivingInput,
    archived: bool,
) -> Result<CatalogArchivingPayload> {
    audited(ctx, [input.catalog_id.0.clone()], async move {
        let entry = match parse_catalog_id("catalogId", &input.catalog_id) {
            Ok(id) => {
                let all_versions = input.all_versions.unwrap_or(false);
                ctx.data::<Services>()?.catalog.set_archived(id, all_versions, archived, &caller(ctx)?).await
            }
            Err(rejection) => Err(rejection.into()),
        };
        let (entry, user_errors) = result_or_user_error(entry)?;
        Ok(CatalogArchivingPayload { catalog_entry: entry.map(CatalogEntry::from), user_errors })
    })
    .await
}

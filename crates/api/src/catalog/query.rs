//! Queries of the catalog.

use async_graphql::{Context, Object, Result};

use super::draft::{CatalogEntryDraft, CatalogEntryValidation};
use super::inputs::{CatalogEntryKey, CatalogFilter, CatalogPathVersion, ValidateCatalogEntryInput};
use super::order::CatalogOrder;
use super::types::{CatalogEntry, CatalogEntryConnection, CatalogList, entries, entries_by_time, selects_content};
use crate::access::READ;
use crate::connection::PageArguments;
use crate::context::Services;
use crate::errors::{field_error, result_or_user_error};
use crate::scalars::parse_catalog_id;
use noetl_domain::catalog_list::CatalogKey;
use noetl_domain::cursor::{CursorKind, encode};
use noetl_storage::catalog as storage;
use noetl_use_cases::bounds::check_text;
use noetl_use_cases::catalog::Registration;

/// Queries of the catalog.
#[derive(Debug, Default)]
pub struct CatalogQuery;

#[Object]
impl CatalogQuery {
    /// Catalog entry with this key; null if there is none.
    #[graphql(guard = "READ")]
    async fn catalog_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id, path, or path and version of the entry.")] by: CatalogEntryKey,
    ) -> Result<Option<CatalogEntry>> {
        let catalog = &ctx.data::<Services>()?.catalog;
        let found = match by {
            CatalogEntryKey::Id(id) => catalog.get(parse_catalog_id("by.id", &id).map_err(field_error)?).await,
            CatalogEntryKey::Path(path) => {
                check_text("by.path", &path).map_err(field_error)?;
                catalog.find(&path, None).await
            }
            CatalogEntryKey::PathVersion(CatalogPathVersion { path, version }) => {
                check_text("by.pathVersion.path", &path).map_err(field_error)?;
                match i16::try_from(version) {
                    Ok(version) => catalog.find(&path, Some(version)).await,
                    Err(_) => Ok(None),
                }
            }
        };
        Ok(found.map_err(field_error)?.map(CatalogEntry::from))
    }

    /// Catalog entries, ordered by path and version unless another order is chosen.
    #[graphql(guard = "READ")]
    async fn catalog_entries(
        &self,
        ctx: &Context<'_>,
        #[graphql(
            desc = "Only items that match this filter (default: in the order `PATH`, the newest version of each path that \
                    is not retired; in the others, all)."
        )]
        filter: Option<CatalogFilter>,
        #[graphql(desc = "Order of the list (default `PATH`). A cursor is valid only in its order.")] order: Option<
            CatalogOrder,
        >,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<CatalogEntryConnection>> {
        let page = PageArguments { first, after, last, before };
        let (filter, order) = (filter.unwrap_or_default(), order.unwrap_or(CatalogOrder::Path));
        let catalog = &ctx.data::<Services>()?.catalog;
        if let Some((time, kind)) = order.time() {
            let request = page.by_time(kind).map_err(field_error)?;
            let filter = filter.parse_by_time(order, time).map_err(field_error)?;
            let page = catalog.list_by_time(&filter, selects_content(ctx), &request).await.map_err(field_error)?;
            return Ok(Some(entries_by_time(filter, page, kind)));
        }
        let request = page.request(CursorKind::Catalog, decode_position).map_err(field_error)?;
        let filter = filter.parse().map_err(field_error)?;
        let page = catalog.list(&filter, selects_content(ctx), &request).await.map_err(field_error)?;
        Ok(Some(entries(CatalogList::Filtered(filter), page, cursor)))
    }

    /// Checks a catalog entry as `registerCatalogEntry` does, and registers nothing.
    #[graphql(guard = "READ")]
    async fn validate_catalog_entry(
        &self,
        #[graphql(desc = "Catalog entry to check.")] input: ValidateCatalogEntryInput,
    ) -> Result<Option<CatalogEntryValidation>> {
        let checked = Registration::from(input.entry).check().map(CatalogEntryDraft::from);
        let (entry, user_errors) = result_or_user_error(checked.map_err(Into::into))?;
        Ok(Some(CatalogEntryValidation { entry, user_errors }))
    }
}

/// Returns the cursor of a catalog entry: its version, then its path.
fn cursor(entry: &storage::CatalogEntry) -> String {
    let mut position = entry.version.to_be_bytes().to_vec();
    position.extend_from_slice(entry.path.as_bytes());
    encode(CursorKind::Catalog, &position)
}

fn decode_position(position: &[u8]) -> Option<CatalogKey> {
    let (version, path) = position.split_first_chunk::<2>()?;
    Some((String::from_utf8(path.to_vec()).ok()?, i16::from_be_bytes(*version)))
}

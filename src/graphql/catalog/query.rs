//! Queries of the catalog.

use std::sync::Arc;

use async_graphql::{Context, Object, Result};

use super::inputs::CatalogFilter;
use super::types::{CatalogEntry, CatalogEntryConnection, LARGE_FIELDS};
use crate::graphql::access::READ;
use crate::graphql::connection::{PageArguments, selects_item_field};
use crate::graphql::context::Services;
use crate::graphql::errors::field_error;
use crate::service::bounds::check_text;
use noetl_domain::cursor::{CursorKind, encode};
use noetl_storage::catalog::CatalogKey;

/// Queries of the catalog.
#[derive(Debug, Default)]
pub struct CatalogQuery;

#[Object]
impl CatalogQuery {
    /// One version of a catalog path; null if there is none.
    #[graphql(guard = "READ")]
    async fn catalog_entry(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Catalog path.")] path: String,
        #[graphql(desc = "Version of the path (default: the newest).")] version: Option<i32>,
    ) -> Result<Option<CatalogEntry>> {
        check_text("path", &path).map_err(field_error)?;
        let version = match version.map(i16::try_from) {
            Some(Err(_)) => return Ok(None),
            Some(Ok(version)) => Some(version),
            None => None,
        };
        let found = ctx.data::<Services>()?.catalog.find(&path, version).await.map_err(field_error)?;
        Ok(found.map(CatalogEntry))
    }

    /// Catalog entries, ordered by path and version.
    #[graphql(guard = "READ")]
    async fn catalog_entries(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only items that match this filter (default: the newest version of each path).")]
        filter: Option<CatalogFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<CatalogEntryConnection> {
        let page = PageArguments { first, after, last, before };
        let request = page.request(CursorKind::Catalog, decode_position).map_err(field_error)?;
        let filter = filter.unwrap_or_default().parse().map_err(field_error)?;
        let wanted = LARGE_FIELDS.into_iter().filter(|field| selects_item_field(ctx, field));
        let wanted: Vec<String> = wanted.map(|field| column(field).to_owned()).collect();
        let page = ctx.data::<Services>()?.catalog.list(&filter, &wanted, &request).await.map_err(field_error)?;
        Ok(CatalogEntryConnection::new(page, Vec::new(), |entry| CatalogEntry(Arc::new(entry)), cursor))
    }
}

/// Returns the column that a large field reads.
fn column(field: &str) -> &str {
    if field == "document" { "content" } else { field }
}

/// Returns the cursor of a catalog entry: its version, then its path.
fn cursor(entry: &CatalogEntry) -> String {
    let entry = &entry.0;
    let mut position = entry.version.to_be_bytes().to_vec();
    position.extend_from_slice(entry.path.as_bytes());
    encode(CursorKind::Catalog, &position)
}

fn decode_position(position: &[u8]) -> Option<CatalogKey> {
    let (version, path) = position.split_first_chunk::<2>()?;
    Some((String::from_utf8(path.to_vec()).ok()?, i16::from_be_bytes(*version)))
}

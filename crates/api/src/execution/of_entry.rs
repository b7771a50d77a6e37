//! The executions of a catalog entry, as a field of the catalog entry.

use async_graphql::{ComplexObject, Context, Result};

use super::lists::{ExecutionConnection, owned};
use super::loaders::Owner;
use crate::access::READ;
use crate::catalog::types::CatalogEntry;
use crate::connection::PageArguments;
use noetl_storage::execution_lists::OwnerKind;

#[ComplexObject]
impl CatalogEntry {
    /// Executions of this version, newest first: ordered by `startedAt`, then by id. Executions without `startedAt` are
    /// last.
    #[graphql(guard = "READ")]
    async fn executions(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<ExecutionConnection>> {
        let page = PageArguments { first, after, last, before };
        owned(ctx, Owner { kind: OwnerKind::Entry, id: self.row().catalog_id }, &page).await.map(Some)
    }
}

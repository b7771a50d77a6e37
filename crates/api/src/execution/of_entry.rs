//! The executions of a catalog entry, as a field of the catalog entry.

use std::sync::Arc;

use async_graphql::{ComplexObject, Context, Result};

use super::lists::{ExecutionConnection, ExecutionList, ExecutionsOf, executions};
use super::loaders::{EntryExecutionsKey, ExecutionsPage};
use crate::access::{READ, scope};
use crate::catalog::types::CatalogEntry;
use crate::connection::PageArguments;
use crate::errors::field_error;
use crate::loaders::BatchLoader;
use noetl_domain::cursor::CursorKind;
use noetl_domain::ids::Id;
use noetl_storage::execution_lists::ExecutionFilter;

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
        let request = page.by_time(CursorKind::Execution).map_err(field_error)?;
        let entry = self.row().catalog_id;
        let found = ctx.data::<BatchLoader>()?.load_one(EntryExecutionsKey { entry, request }).await;
        let ExecutionsPage { page, unavailable } = found.map_err(field_error)?.unwrap_or_default();
        let of = ExecutionsOf::Entry(Id::new(entry));
        let executions_of_entry = ExecutionList { of, filter: ExecutionFilter::default(), scope: scope(ctx)? };
        Ok(Some(executions(ctx, executions_of_entry, Arc::unwrap_or_clone(page), unavailable).await))
    }
}

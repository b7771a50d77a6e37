//! Pages of a log, which the event queries, executions and source subscriptions return.

use std::sync::Arc;

use async_graphql::{Context, Result};

use super::inputs::EventFilter;
use super::loaders::LogKey;
use super::types::{Event, EventConnection};
use crate::graphql::connection::{PageArguments, id_cursor, selects_item_field};
use crate::graphql::errors::field_error;
use crate::graphql::loaders::BatchLoader;
use noetl_domain::cursor::CursorKind;
use noetl_domain::ids::Id;
use noetl_storage::events::LargeColumns;

/// Returns a page of a log.
pub async fn log(
    ctx: &Context<'_>,
    execution: Id,
    filter: Option<EventFilter>,
    page: &PageArguments,
) -> Result<EventConnection> {
    let request = page.by_id(CursorKind::Event).map_err(field_error)?;
    let filter = filter.unwrap_or_default().parse().map_err(field_error)?;
    let found = ctx
        .data::<BatchLoader>()?
        .load_one(LogKey { execution, filter, columns: large_columns(ctx), request })
        .await
        .map_err(field_error)?;
    let page = found.transpose().map_err(field_error)?.map(Arc::unwrap_or_clone).unwrap_or_default();
    let cursor = |event: &Event| id_cursor(CursorKind::Event, event.0.event_id.get());
    Ok(EventConnection::new(page, Vec::new(), |event| Event(Arc::new(event)), cursor))
}

/// Returns the large columns of events that the operation selects.
fn large_columns(ctx: &Context<'_>) -> LargeColumns {
    LargeColumns::wanted(|column| selects_item_field(ctx, if column == "stack_trace" { "stackTrace" } else { column }))
}

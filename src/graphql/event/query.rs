//! Queries of events.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};

use super::inputs::EventFilter;
use super::log::log;
use super::types::{Event, EventConnection};
use crate::graphql::access::{READ, scope};
use crate::graphql::connection::PageArguments;
use crate::graphql::context::Services;
use crate::graphql::errors::field_error;
use crate::graphql::scalars::parse_id;

/// Queries of events.
#[derive(Debug, Default)]
pub struct EventQuery;

#[Object]
impl EventQuery {
    /// One event in the log of an execution or a source subscription; null if there is none.
    #[graphql(guard = "READ")]
    async fn event(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution or source subscription that the log belongs to.")] execution_id: ID,
        #[graphql(desc = "Id of the event.")] id: ID,
    ) -> Result<Option<Event>> {
        let execution = parse_id("executionId", &execution_id).map_err(field_error)?;
        let event = parse_id("id", &id).map_err(field_error)?;
        let executions = &ctx.data::<Services>()?.executions;
        let found = executions.event(execution, event, &scope(ctx)?).await.map_err(field_error)?;
        Ok(found.map(|event| Event(Arc::new(event))))
    }

    /// Log of an execution or a source subscription, oldest event first.
    #[graphql(guard = "READ")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution or source subscription that the log belongs to.")] execution_id: ID,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<EventFilter>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<EventConnection>> {
        let execution = parse_id("executionId", &execution_id).map_err(field_error)?;
        log(ctx, execution, filter, &PageArguments { first, after, last, before }).await.map(Some)
    }
}

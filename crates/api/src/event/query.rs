//! Queries of events.

use std::sync::Arc;

use async_graphql::{Context, ID, Object, Result};

use super::inputs::{EventFilter, EventOrder};
use super::log::{log, newest_events};
use super::types::{Event, EventConnection};
use crate::access::{READ, scope};
use crate::connection::PageArguments;
use crate::context::Services;
use crate::errors::field_error;
use crate::scalars::{parse_event_id, parse_id};
use noetl_use_cases::error::Rejection;

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
        #[graphql(desc = "Id of the event: `eventId` or `id`.")] event_id: ID,
    ) -> Result<Option<Event>> {
        let execution = parse_id("executionId", &execution_id).map_err(field_error)?;
        let event = parse_event_id("eventId", &event_id, execution).map_err(field_error)?;
        let executions = &ctx.data::<Services>()?.executions;
        let found = executions.event(execution, event, &scope(ctx)?).await.map_err(field_error)?;
        Ok(found.map(|event| Event(Arc::new(event))))
    }

    /// Log of an execution or a source subscription, in the order of event ids or of arrival; without `executionId`, the
    /// events of all logs, newest first: ordered by `createdAt`, then by event id. Conditions on types, statuses, times,
    /// node names and executions are looked up in indexes; other conditions on all logs are fast only together with them.
    #[graphql(guard = "READ")]
    async fn events(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Id of the execution or source subscription that the log belongs to (default: all logs).")]
        execution_id: Option<ID>,
        #[graphql(desc = "Only items that match this filter (default: all).")] filter: Option<EventFilter>,
        #[graphql(desc = "Order of the log of `executionId` (default: by id).")] order: Option<EventOrder>,
        #[graphql(desc = "Maximum number of items, counted from the start of the list (1 to 100, default 25).")]
        first: Option<i32>,
        #[graphql(desc = "Returns only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "Maximum number of items, counted from the end of the list (1 to 100).")] last: Option<i32>,
        #[graphql(desc = "Returns only items before this cursor.")] before: Option<String>,
    ) -> Result<Option<EventConnection>> {
        let page = PageArguments { first, after, last, before };
        let Some(execution) = execution_id else {
            if order.is_some() {
                let message = "the events of all logs have one order; add executionId, or leave the order out";
                return Err(field_error(Rejection::invalid("order", message)));
            }
            return newest_events(ctx, filter, &page).await.map(Some);
        };
        let execution = parse_id("executionId", &execution).map_err(field_error)?;
        log(ctx, execution, filter, order, &page).await.map(Some)
    }
}

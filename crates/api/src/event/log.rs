//! Pages of events, which the event queries, executions and source subscriptions return.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::{Context, Result};

use super::inputs::{EventFilter, EventOrder};
use super::loaders::LogKey;
use super::stream_cursor::stream_cursor;
use super::types::{Event, EventConnection, EventList};
use crate::access::scope;
use crate::connection::{PageArguments, id_cursor, selects_item_field};
use crate::context::Services;
use crate::errors::field_error;
use crate::loaders::BatchLoader;
use noetl_domain::cursor::{CursorKind, encode};
use noetl_domain::event_list::{Arrival, EventPosition};
use noetl_domain::ids::Id;
use noetl_domain::page::Page;
use noetl_storage::events::LargeColumns;
use noetl_use_cases::error::Rejection;
use noetl_use_cases::executions::logs::{Listed, LogPage, LogQuery, LogRequest};

/// Returns a page of a log.
pub async fn log(
    ctx: &Context<'_>,
    execution: Id,
    filter: Option<EventFilter>,
    order: Option<EventOrder>,
    page: &PageArguments,
) -> Result<EventConnection> {
    let request = match order.unwrap_or_default() {
        EventOrder::Id => page.by_id(CursorKind::Event).map(LogRequest::ById),
        EventOrder::Arrival => by_arrival(page),
    };
    let request = request.map_err(field_error)?;
    let filter = filter.unwrap_or_default().parse().map_err(field_error)?;
    let list = EventList { execution: Some(execution), filter: filter.clone(), scope: scope(ctx)? };
    let query = LogQuery { filter, columns: large_columns(ctx), request, joined: joins_live_events(ctx)? };
    let found = ctx.data::<BatchLoader>()?.load_one(LogKey { execution, query }).await.map_err(field_error)?;
    let Some(found) = found.transpose().map_err(field_error)? else {
        return Ok(EventConnection::new(list, Page::default(), Vec::new(), event, |_| String::new()));
    };
    let LogPage { page, feeds } = Arc::unwrap_or_clone(found);
    // The feeds of all shards that have published events of the log.
    let shards: Vec<_> = ctx.data::<Services>()?.databases.map().shards_of(execution).collect();
    let cursor = feeds.and_then(|feeds| stream_cursor(&feeds, Some(&shards)));
    Ok(connection_of_log(list, page).with(cursor))
}

/// Returns a page of the events of all logs that the caller may read, newest first. A filter with a text is refused: a
/// text is searched for within one log only.
pub async fn newest_events(
    ctx: &Context<'_>,
    filter: Option<EventFilter>,
    page: &PageArguments,
) -> Result<EventConnection> {
    let filter = filter.unwrap_or_default().parse().map_err(field_error)?;
    if filter.text.is_some() {
        let message = "a text is searched for within one log; add executionId, or leave the text out";
        return Err(field_error(Rejection::invalid("filter.text", message)));
    }
    let request = page.request(CursorKind::EventTime, EventPosition::read).map_err(field_error)?;
    let (executions, scope) = (&ctx.data::<Services>()?.executions, scope(ctx)?);
    let (columns, joined) = (large_columns(ctx), joins_live_events(ctx)?);
    let found = executions.newest_events(&filter, &columns, &request, joined, &scope).await.map_err(field_error)?;
    let cursor = |event: &Event| encode(CursorKind::EventTime, &EventPosition::of(&event.0).to_bytes());
    let list = EventList { execution: None, filter, scope };
    let connection = EventConnection::new(list, found.listing.page, found.listing.unavailable, event, cursor);
    Ok(connection.with(found.feeds.and_then(|feeds| stream_cursor(&feeds, None))))
}

/// Returns the request for a page in the order of arrival, which has no end to read backwards from.
fn by_arrival(page: &PageArguments) -> Result<LogRequest, Rejection> {
    for (field, is_set) in [("last", page.last.is_some()), ("before", page.before.is_some())] {
        if is_set {
            let message =
                format!("a log in the order ARRIVAL is read forwards: use first and after instead of {field}");
            return Err(Rejection::invalid(field, message));
        }
    }
    page.request(CursorKind::EventArrival, Arrival::read).map(LogRequest::ByArrival)
}

fn connection_of_log(list: EventList, page: Page<Listed>) -> EventConnection {
    let key = |event: &Event| (event.0.execution_id, event.0.event_id);
    let mut arrivals = HashMap::new();
    let items = page.items.into_iter().map(|Listed { event, arrival }| {
        arrivals.extend(arrival.map(|arrival| ((event.execution_id, event.event_id), arrival)));
        event
    });
    let page = Page { items: items.collect(), has_next: page.has_next, has_previous: page.has_previous };
    let cursor = move |event: &Event| match arrivals.get(&key(event)) {
        Some(arrival) => encode(CursorKind::EventArrival, &arrival.to_bytes()),
        None => id_cursor(CursorKind::Event, event.0.event_id.get()),
    };
    EventConnection::new(list, page, Vec::new(), event, cursor)
}

fn event(event: noetl_domain::event::Event<plain_json::Text>) -> Event {
    Event(Arc::new(event))
}

/// Returns whether the page is to be joined with live events, which the server has.
fn joins_live_events(ctx: &Context<'_>) -> Result<bool> {
    let has_stream = ctx.data::<Services>()?.hub.is_some();
    Ok(has_stream && ctx.look_ahead().field("streamCursor").exists())
}

/// Returns the large columns of events that the operation selects.
fn large_columns(ctx: &Context<'_>) -> LargeColumns {
    LargeColumns::wanted(|column| selects_item_field(ctx, LargeColumns::field_name(column)))
}

//! Events.

use std::sync::Arc;

use async_graphql::{Context, Result};

use super::loaders::{EventLoadKey, LogTotalKey};
use crate::connection::{Countable, connection};
use crate::context::Services;
use crate::errors::field_error;
use crate::loaders::BatchLoader;
use noetl_domain::event::{self as domain, EventKey};
use noetl_domain::event_list::LogFilter;
use noetl_domain::ids::Id;
use noetl_domain::page::Total;
use noetl_domain::tenant::Scope;
use noetl_storage::events::LargeColumns;
use noetl_use_cases::error::ServiceError;
use plain_json::Text;

/// A committed event. Its fields are in [`super::object`], because they lead to executions, which have events.
#[derive(Debug, Clone)]
pub struct Event(pub Arc<domain::Event<Text>>);

impl Event {
    /// Returns the event with this key through the batch loader. Its large fields are read only if they are selected.
    pub async fn load(ctx: &Context<'_>, key: EventKey) -> Result<Option<Self>> {
        let is_selected = |field: &str| ctx.look_ahead().field(field).exists();
        let columns = LargeColumns::wanted(|column| is_selected(LargeColumns::field_name(column)));
        let found = ctx.data::<BatchLoader>()?.load_one(EventLoadKey { key, columns }).await.map_err(field_error)?;
        Ok(found.transpose().map_err(field_error)?.map(Self))
    }
}

/// A list of events.
#[derive(Debug)]
pub struct EventList {
    /// Execution or source subscription whose log it is; `None`: the list has the events of all logs.
    pub execution: Option<Id>,
    /// Conditions of the list.
    pub filter: LogFilter,
    /// Data that the caller may read.
    pub scope: Scope,
}

impl Countable for EventList {
    async fn total(&self, ctx: &Context<'_>, limit: i64) -> std::result::Result<Total, ServiceError> {
        let Some(execution) = self.execution else {
            return ctx.data_unchecked::<Services>().executions.event_total(&self.filter, limit, &self.scope).await;
        };
        let key = LogTotalKey { execution, filter: self.filter.clone(), limit };
        ctx.data_unchecked::<BatchLoader>().load_one(key).await?.unwrap_or(Ok(Total::of(0, limit)))
    }
}

connection!(EventConnection, EventEdge, Event, EventList, extra: {
    /// Start position of live events that continues the page: `events(start: {after: …})` with the same filter delivers
    /// exactly the events that neither this page nor the pages after it contain. For a log in the order `ARRIVAL`, read
    /// all pages with this field, and pass that of the last page. In another order, a page with which the list ends is
    /// exact; if several pages are read, pass that of the first one, and leave out repeated events by their ids. With this
    /// field, the page has only events that are published, so it lacks those of the last milliseconds, or those that were
    /// written since publishing stopped; the live events contain them. Null if the server has no event stream, or if the
    /// feed of a shard can't be read or has not begun.
    stream_cursor: Option<String>
});

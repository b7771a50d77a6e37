//! Batch loaders of logs.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::dataloader::Loader;

use crate::loaders::{Loaders, group_by_kind, load_by_id};
use noetl_domain::event::{Event, EventKey};
use noetl_domain::event_list::LogFilter;
use noetl_domain::ids::Id;
use noetl_domain::page::Total;
use noetl_storage::events::{FirstEvent, LargeColumns};
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::logs::{LogPage, LogQuery};
use plain_json::Text;

load_by_id! {
    /// Key of the head of a log: its registered or started event.
    HeadKey => Arc<FirstEvent>, executions.log_heads
}

/// Key of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventLoadKey {
    /// Key of the event.
    pub key: EventKey,
    /// Large columns to read.
    pub columns: LargeColumns,
}

/// Key of a page of a log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogKey {
    /// Id of the execution or source subscription that the log belongs to.
    pub execution: Id,
    /// Query for the page.
    pub query: LogQuery,
}

/// Key of the number of events of a log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogTotalKey {
    /// Id of the execution or source subscription that the log belongs to.
    pub execution: Id,
    /// Filter for the events.
    pub filter: LogFilter,
    /// Number up to which events are counted.
    pub limit: i64,
}

impl Loader<EventLoadKey> for Loaders {
    type Value = Result<Arc<Event<Text>>, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[EventLoadKey]) -> Result<HashMap<EventLoadKey, Self::Value>, ServiceError> {
        let mut loaded = HashMap::new();
        for (columns, group) in group_by_kind(keys, |key| key.columns.clone()) {
            let wanted: Vec<EventKey> = group.iter().map(|key| key.key).collect();
            let (mut found, failed) = self.services.executions.events_by_keys(&wanted, &columns, &self.scope).await;
            for key in wanted {
                let event = match failed.get(&Id::new(key.execution_id)) {
                    Some(error) => Some(Err(error.clone())),
                    None => found.remove(&key).map(Arc::new).map(Ok),
                };
                loaded.extend(event.map(|event| (EventLoadKey { key, columns: columns.clone() }, event)));
            }
        }
        Ok(loaded)
    }
}

impl Loader<LogKey> for Loaders {
    type Value = Result<Arc<LogPage>, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[LogKey]) -> Result<HashMap<LogKey, Self::Value>, ServiceError> {
        let mut pages = HashMap::new();
        for (query, group) in group_by_kind(keys, |key| key.query.clone()) {
            let executions: Vec<Id> = group.iter().map(|key| key.execution).collect();
            let found = self.services.executions.logs(&executions, &query, &self.scope).await;
            pages.extend(
                found
                    .into_iter()
                    .map(|(execution, page)| (LogKey { execution, query: query.clone() }, page.map(Arc::new))),
            );
        }
        Ok(pages)
    }
}

impl Loader<LogTotalKey> for Loaders {
    type Value = Result<Total, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[LogTotalKey]) -> Result<HashMap<LogTotalKey, Self::Value>, ServiceError> {
        let mut totals = HashMap::new();
        for ((filter, limit), group) in group_by_kind(keys, |key| (key.filter.clone(), key.limit)) {
            let executions: Vec<Id> = group.iter().map(|key| key.execution).collect();
            let mut found = self.services.executions.log_totals(&executions, &filter, limit, &self.scope).await;
            totals.extend(group.into_iter().filter_map(|key| Some((key.clone(), found.remove(&key.execution)?))));
        }
        Ok(totals)
    }
}

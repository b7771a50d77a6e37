//! Batch loaders of logs.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::dataloader::Loader;

use crate::graphql::loaders::{Loaders, group_by_kind};
use crate::service::error::ServiceError;
use noetl_domain::event::{Event, EventFilter};
use noetl_domain::ids::Id;
use noetl_domain::page::{Page, PageRequest};
use noetl_storage::events::{FirstEvent, LargeColumns};
use plain_json::Text;

/// Key of the head of a log: its registered or started event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadKey(pub Id);

/// Key of a page of a log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogKey {
    /// Id of the execution or source subscription that the log belongs to.
    pub execution: Id,
    /// Filter for the events.
    pub filter: EventFilter,
    /// Large columns to read.
    pub columns: LargeColumns,
    /// Requested page.
    pub request: PageRequest<i64>,
}

impl Loader<HeadKey> for Loaders {
    type Value = Result<Arc<FirstEvent>, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[HeadKey]) -> Result<HashMap<HeadKey, Self::Value>, ServiceError> {
        let ids: Vec<Id> = keys.iter().map(|key| key.0).collect();
        let (heads, failed) = self.services.executions.log_heads(&ids, &self.scope).await;
        Ok(self.with_failures(keys, |key| key.0, heads, &failed))
    }
}

impl Loader<LogKey> for Loaders {
    type Value = Result<Arc<Page<Event<Text>>>, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[LogKey]) -> Result<HashMap<LogKey, Self::Value>, ServiceError> {
        let mut pages = HashMap::new();
        let kind = |key: &LogKey| (key.filter.clone(), key.columns.clone(), key.request.clone());
        for ((filter, columns, request), group) in group_by_kind(keys, kind) {
            let executions: Vec<Id> = group.iter().map(|key| key.execution).collect();
            let (mut found, failed) =
                self.services.executions.events(&executions, &filter, &columns, &request, &self.scope).await;
            for key in group {
                let page = match failed.get(&self.services.databases.index_of(key.execution)) {
                    Some(error) => Err(error.clone()),
                    None => Ok(found.remove(&key.execution).unwrap_or_else(|| request.cut(Vec::new()))),
                };
                pages.insert(key.clone(), page.map(Arc::new));
            }
        }
        Ok(pages)
    }
}

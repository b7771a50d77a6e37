//! Reading executions and their events.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Executions;
use crate::domain::event::{Event, EventFilter};
use crate::domain::ids::Id;
use crate::domain::page::{Page, PageRequest};
use crate::domain::shard::ShardIndex;
use crate::service::error::ServiceError;
use crate::service::fan_out::{self, Listing};
use crate::service::shards::rows_by_ids;
use crate::storage::events::{self, LogHead};
use crate::storage::executions::{self, ExecutionFilter, ExecutionRow};
use crate::storage::pools::{Database, Databases};

impl Executions {
    /// The executions with these ids, and the shards that could not be read.
    pub async fn by_ids(&self, ids: &[Id]) -> (HashMap<Id, ExecutionRow>, BTreeMap<ShardIndex, ServiceError>) {
        let query = async |shard: &Database, ids: &[i64]| executions::by_ids(shard, ids).await;
        let (rows, failed) = rows_by_ids(&self.databases, ids.iter().copied(), query).await;
        (rows.into_iter().map(|row| (Id::new(row.execution_id), row)).collect(), failed)
    }

    /// A page over all shards, newest first.
    pub async fn list(
        &self,
        filter: &ExecutionFilter,
        request: &PageRequest<i64>,
    ) -> Result<Listing<ExecutionRow>, ServiceError> {
        let query = async |shard: &Database, range| executions::list(shard, filter, range).await;
        fan_out::newest_first(&self.databases, request, |row: &ExecutionRow| row.execution_id, query).await
    }

    /// One event.
    pub async fn event(&self, execution: Id, event: Id) -> Result<Option<Event>, ServiceError> {
        Ok(events::get(self.databases.shard_of(execution), execution, event).await?)
    }

    /// A page of one log, oldest first.
    pub async fn events(
        &self,
        execution: Id,
        filter: &EventFilter,
        request: &PageRequest<i64>,
    ) -> Result<Page<Event>, ServiceError> {
        let shard = self.databases.shard_of(execution);
        Ok(request.cut(events::list(shard, execution, filter, request.oldest_first()).await?))
    }

    /// What these logs' first landmarks say, and the shards that could not be read.
    pub async fn log_heads(&self, ids: &[Id]) -> (HashMap<Id, Arc<LogHead>>, BTreeMap<ShardIndex, ServiceError>) {
        self.heads(ids.iter().copied()).await
    }

    /// The databases and the shard map.
    #[must_use]
    pub fn databases(&self) -> &Databases {
        &self.databases
    }
}

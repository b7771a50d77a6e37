//! Reading source subscriptions.

use std::collections::BTreeMap;

use super::Subscriptions;
use crate::service::error::ServiceError;
use crate::service::fan_out::{self, Listing};
use crate::service::shards::rows_by_ids;
use noetl_domain::ids::Id;
use noetl_domain::list_position::CursorPosition;
use noetl_domain::page::{PageRequest, Total};
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::subscriptions::{self, SubscriptionFilter, SubscriptionRow};

impl Subscriptions {
    /// Returns a subscription in the scope by id.
    #[tracing::instrument(level = "debug", name = "subscriptions.get", skip_all, fields(id = %id))]
    pub async fn get(&self, id: Id, scope: &Scope) -> Result<Option<SubscriptionRow>, ServiceError> {
        let rows = subscriptions::by_ids(self.databases.shard_of(id), scope, &[id.get()]).await?;
        Ok(rows.into_iter().next())
    }

    /// Returns the subscriptions in the scope with these ids, and the error of each shard that could not be read.
    #[tracing::instrument(
        level = "debug", name = "subscriptions.by_ids", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display))
    )]
    pub async fn by_ids(
        &self,
        ids: &[Id],
        scope: &Scope,
    ) -> (Vec<SubscriptionRow>, BTreeMap<ShardIndex, ServiceError>) {
        let query = |shard, ids: Vec<i64>| async move { subscriptions::by_ids(shard, scope, &ids).await };
        rows_by_ids(&self.databases, ids.iter().copied(), query).await
    }

    /// Returns the path's subscription in the scope: the live one, else the one that was live last.
    #[tracing::instrument(level = "debug", name = "subscriptions.by_path", skip_all, fields(path))]
    pub async fn by_path(&self, path: &str, scope: &Scope) -> Result<Option<SubscriptionRow>, ServiceError> {
        self.activator.of_path(path, scope).await
    }

    /// Returns a page in the scope, newest first: by the time of the registration, then by id.
    #[tracing::instrument(level = "debug", name = "subscriptions.list", skip_all)]
    pub async fn list(
        &self,
        filter: &SubscriptionFilter,
        request: &PageRequest<CursorPosition>,
        scope: &Scope,
    ) -> Result<Listing<SubscriptionRow>, ServiceError> {
        let position = |id| async move { Ok(self.get(id, scope).await?.map(|row| row.position())) };
        let request = fan_out::positioned(request, position).await?;
        let query = |shard, range| subscriptions::list(shard, scope, filter, range);
        fan_out::newest_first(&self.databases, &request, SubscriptionRow::position, query).await
    }

    /// Counts subscriptions in the scope over all shards, up to `limit`.
    #[tracing::instrument(level = "debug", name = "subscriptions.total", skip_all)]
    pub async fn total(&self, filter: &SubscriptionFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError> {
        fan_out::total(&self.databases, limit, |shard, limit| subscriptions::count(shard, scope, filter, limit)).await
    }
}

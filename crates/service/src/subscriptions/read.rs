//! Reading source subscriptions.

use async_trait::async_trait;

use super::Subscriptions;
use crate::fan_out;
use crate::shards::rows_by_ids;
use noetl_domain::ids::Id;
use noetl_domain::list_position::ListPosition;
use noetl_domain::page::{PageRequest, Total};
use noetl_domain::tenant::Scope;
use noetl_storage::subscriptions::{self, SubscriptionFilter, SubscriptionRow};
use noetl_use_cases::error::{ReadFailures, ServiceError};
use noetl_use_cases::listing::Listing;
use noetl_use_cases::subscriptions::ReadSubscriptions;

#[async_trait]
impl ReadSubscriptions for Subscriptions {
    #[tracing::instrument(level = "debug", name = "subscriptions.get", skip_all, fields(id = %id))]
    async fn get(&self, id: Id, scope: &Scope) -> Result<Option<SubscriptionRow>, ServiceError> {
        self.activator.get(id, scope).await
    }

    #[tracing::instrument(
        level = "debug", name = "subscriptions.by_ids", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display))
    )]
    async fn by_ids(&self, ids: &[Id], scope: &Scope) -> (Vec<SubscriptionRow>, ReadFailures) {
        let query = |shard, ids: Vec<i64>| async move { subscriptions::by_ids(shard, scope, &ids).await };
        rows_by_ids(&self.databases, ids.iter().copied(), query).await
    }

    #[tracing::instrument(level = "debug", name = "subscriptions.by_path", skip_all, fields(path))]
    async fn by_path(&self, path: &str, scope: &Scope) -> Result<Option<SubscriptionRow>, ServiceError> {
        self.activator.of_path(path, scope).await
    }

    #[tracing::instrument(level = "debug", name = "subscriptions.list", skip_all)]
    async fn list(
        &self,
        filter: &SubscriptionFilter,
        request: &PageRequest<ListPosition>,
        scope: &Scope,
    ) -> Result<Listing<SubscriptionRow>, ServiceError> {
        let query = |shard, range| subscriptions::list(shard, scope, filter, range);
        let range = request.newest_first();
        fan_out::in_range(&self.databases, request, range, SubscriptionRow::position, query).await
    }

    #[tracing::instrument(level = "debug", name = "subscriptions.total", skip_all)]
    async fn total(&self, filter: &SubscriptionFilter, limit: i64, scope: &Scope) -> Result<Total, ServiceError> {
        fan_out::total(&self.databases, limit, |shard, limit| subscriptions::count(shard, scope, filter, limit)).await
    }
}

//! Batch loader of source subscriptions.

use std::collections::HashMap;

use async_graphql::dataloader::Loader;

use crate::loaders::{Loaders, with_failures};
use noetl_domain::ids::Id;
use noetl_storage::subscriptions::SubscriptionRow;
use noetl_use_cases::error::ServiceError;

/// Key of a source subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubscriptionRowKey(pub Id);

impl Loader<SubscriptionRowKey> for Loaders {
    type Value = Result<SubscriptionRow, ServiceError>;
    type Error = ServiceError;

    async fn load(
        &self,
        keys: &[SubscriptionRowKey],
    ) -> Result<HashMap<SubscriptionRowKey, Self::Value>, ServiceError> {
        let ids: Vec<Id> = keys.iter().map(|key| key.0).collect();
        let (rows, failed) = self.services.subscriptions.by_ids(&ids, &self.scope).await;
        let rows = rows.into_iter().map(|row| (row.id, row)).collect();
        Ok(with_failures(keys, |key| key.0, rows, &failed))
    }
}

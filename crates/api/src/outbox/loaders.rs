//! Batch loader of outbox entries.

use std::collections::HashMap;

use async_graphql::dataloader::Loader;

use crate::loaders::{Loaders, group_by_kind};
use noetl_domain::outbox::OutboxId;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::outbox::ListedRow;

/// Key of an outbox entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryKey {
    /// Id of the entry.
    pub id: OutboxId,
    /// Whether to read the payload.
    pub with_payload: bool,
}

impl Loader<EntryKey> for Loaders {
    type Value = Result<ListedRow, ServiceError>;
    type Error = ServiceError;

    async fn load(&self, keys: &[EntryKey]) -> Result<HashMap<EntryKey, Self::Value>, ServiceError> {
        let mut found = HashMap::new();
        for (with_payload, group) in group_by_kind(keys, |key| key.with_payload) {
            let ids: Vec<OutboxId> = group.iter().map(|key| key.id).collect();
            let entries = self.services.outbox.by_ids(&ids, with_payload, &self.scope).await;
            found.extend(entries.into_iter().map(|(id, entry)| (EntryKey { id, with_payload }, entry)));
        }
        Ok(found)
    }
}

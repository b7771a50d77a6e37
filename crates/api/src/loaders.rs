//! Loaders: the objects that the rows of a response refer to are fetched with one query per database. A shard that
//! can't be read fails only the rows that it stores. Each aggregate defines its keys, and how they are loaded.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use async_graphql::dataloader::{DataLoader, Loader};
use tokio_util::sync::CancellationToken;

use super::context::Services;
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;
use noetl_use_cases::error::{ReadFailures, ServiceError};

/// Fetches the objects that rows refer to.
#[derive(Debug)]
pub struct Loaders {
    /// Use cases that read the objects.
    pub services: Arc<Services>,
    /// Data that the caller may read. Other objects don't exist for it.
    pub scope: Scope,
}

/// Loader of one operation.
pub type BatchLoader = DataLoader<ItemLoaders>;

/// The current item of an operation. A query or mutation has one item; a live subscription has many, one after the
/// other.
#[derive(Debug, Clone, Default)]
pub struct CurrentItem(Arc<Mutex<CancellationToken>>);

impl CurrentItem {
    /// Ends the fetches of the item, and begins the next item. An item that timed out may have left fetches.
    pub fn end(&self) {
        let ended = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        ended.cancel();
    }

    fn token(&self) -> CancellationToken {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Loaders whose fetches end with the item that requested them.
#[derive(Debug)]
pub struct ItemLoaders {
    /// Fetches the objects.
    pub loaders: Loaders,
    /// Item that requests them.
    pub item: CurrentItem,
}

impl<K> Loader<K> for ItemLoaders
where
    K: Send + Sync + Hash + Eq + Clone + 'static,
    Loaders: Loader<K, Error = ServiceError>,
{
    type Value = <Loaders as Loader<K>>::Value;
    type Error = ServiceError;

    async fn load(&self, keys: &[K]) -> Result<HashMap<K, Self::Value>, ServiceError> {
        let item = self.item.token();
        item.run_until_cancelled(self.loaders.load(keys)).await.unwrap_or(Err(ServiceError::Abandoned))
    }
}

/// Defines a key, which is the id of a log, with a loader of its values. `$read` is the function of a use case that reads
/// them. An id that can't be read has its own error.
macro_rules! load_by_id {
    ($(#[$attribute:meta])* $key:ident => $value:ty, $service:ident.$read:ident) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $key(pub noetl_domain::ids::Id);

        impl async_graphql::dataloader::Loader<$key> for $crate::loaders::Loaders {
            type Value = Result<$value, noetl_use_cases::error::ServiceError>;
            type Error = noetl_use_cases::error::ServiceError;

            async fn load(
                &self,
                keys: &[$key],
            ) -> Result<std::collections::HashMap<$key, Self::Value>, noetl_use_cases::error::ServiceError> {
                let ids: Vec<noetl_domain::ids::Id> = keys.iter().map(|key| key.0).collect();
                let (found, failed) = self.services.$service.$read(&ids, &self.scope).await;
                Ok($crate::loaders::with_failures(keys, |key| key.0, found, &failed))
            }
        }
    };
}

pub(super) use load_by_id;

/// Returns the rows, and the errors of the keys that could not be read.
pub(super) fn with_failures<K: Copy + Eq + Hash, S: Into<R>, R>(
    keys: &[K],
    id: impl Fn(&K) -> Id,
    mut rows: HashMap<Id, S>,
    failed: &ReadFailures,
) -> HashMap<K, Result<R, ServiceError>> {
    let answer = |key: &K| {
        let id = id(key);
        let row = match failed.get(&id) {
            Some(error) => Err(error.clone()),
            None => Ok(rows.remove(&id)?.into()),
        };
        Some((*key, row))
    };
    keys.iter().filter_map(answer).collect()
}

/// Groups the keys by `kind`, so that one query can serve each group.
pub(super) fn group_by_kind<K, G: Eq + Hash>(keys: &[K], kind: impl Fn(&K) -> G) -> HashMap<G, Vec<&K>> {
    let mut groups: HashMap<G, Vec<&K>> = HashMap::new();
    for key in keys {
        groups.entry(kind(key)).or_default().push(key);
    }
    groups
}

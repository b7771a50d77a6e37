//! Loaders: the objects that the rows of a response refer to are fetched with one query per database. A shard that
//! can't be read fails only the rows that it stores. Each aggregate defines its keys, and how they are loaded.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use async_graphql::dataloader::DataLoader;

use super::context::Services;
use crate::service::error::ServiceError;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;

/// Fetches the objects that rows refer to.
#[derive(Debug)]
pub struct Loaders(pub Arc<Services>);

/// Loader of one operation.
pub type BatchLoader = DataLoader<Loaders>;

impl Loaders {
    /// Returns the rows, and an error for each key whose shard could not be read.
    pub(super) fn with_failures<K: Copy + Eq + Hash, R>(
        &self,
        keys: &[K],
        id: impl Fn(&K) -> Id,
        mut rows: HashMap<Id, R>,
        failed: &BTreeMap<ShardIndex, ServiceError>,
    ) -> HashMap<K, Result<R, ServiceError>> {
        let answer = |key: &K| {
            let id = id(key);
            let error = failed.get(&self.0.databases.index_of(id)).cloned();
            Some((*key, error.map_or_else(|| rows.remove(&id).map(Ok), |error| Some(Err(error)))?))
        };
        keys.iter().filter_map(answer).collect()
    }
}

/// Groups the keys by `kind`, so that one query can serve each group.
pub(super) fn group_by_kind<K, G: Eq + Hash>(keys: &[K], kind: impl Fn(&K) -> G) -> HashMap<G, Vec<&K>> {
    let mut groups: HashMap<G, Vec<&K>> = HashMap::new();
    for key in keys {
        groups.entry(kind(key)).or_default().push(key);
    }
    groups
}

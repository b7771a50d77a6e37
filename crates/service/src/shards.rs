//! Grouping of work by shard.

use std::collections::BTreeMap;

use futures::future::join_all;

use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::pools::{Database, Databases};
use noetl_use_cases::error::ServiceError;

/// Groups items by the shard of their execution.
pub(crate) fn by_shard<T>(
    databases: &Databases,
    items: impl IntoIterator<Item = T>,
    execution: impl Fn(&T) -> Id,
) -> BTreeMap<ShardIndex, Vec<T>> {
    let mut groups: BTreeMap<ShardIndex, Vec<T>> = BTreeMap::new();
    for item in items {
        groups.entry(databases.index_of(execution(&item))).or_default().push(item);
    }
    groups
}

/// Reads rows of many executions with one query per shard, in parallel. Returns the rows, and the error of each shard
/// that failed.
pub(crate) async fn rows_by_ids<'a, T, Rows: Future<Output = Result<Vec<T>, StorageError>>>(
    databases: &'a Databases,
    ids: impl IntoIterator<Item = Id>,
    query: impl Fn(&'a Database, Vec<i64>) -> Rows,
) -> (Vec<T>, BTreeMap<ShardIndex, ServiceError>) {
    let queries = by_shard(databases, ids, |id| *id).into_iter().map(|(index, ids)| {
        let rows = query(&databases.shards()[usize::from(index)], ids.into_iter().map(Id::get).collect());
        async move { (index, rows.await) }
    });
    let (mut rows, mut failed) = (Vec::new(), BTreeMap::new());
    for (index, answer) in join_all(queries).await {
        match answer {
            Ok(found) => rows.extend(found),
            Err(error) => {
                failed.insert(index, error.into());
            }
        }
    }
    (rows, failed)
}

//! Grouping of work by shard.

use std::collections::BTreeMap;

use futures::future::join_all;

use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::pools::{Database, Databases};
use noetl_use_cases::error::{ReadFailures, ServiceError};

/// Groups items by the shard of their execution.
pub(crate) fn by_shard<T>(
    databases: &Databases,
    items: impl IntoIterator<Item = T>,
    execution: impl Fn(&T) -> Id,
) -> BTreeMap<ShardIndex, Vec<T>> {
    let (map, mut groups): (_, BTreeMap<ShardIndex, Vec<T>>) = (databases.map(), BTreeMap::new());
    for item in items {
        groups.entry(map.shard_of(execution(&item))).or_default().push(item);
    }
    groups
}

/// Reads rows of many executions with one query per shard, in parallel. Returns the rows, and the errors of the
/// executions that could not be read.
pub async fn rows_by_ids<'a, T, Rows: Future<Output = Result<Vec<T>, StorageError>>>(
    databases: &'a Databases,
    ids: impl IntoIterator<Item = Id>,
    query: impl Fn(&'a Database, Vec<i64>) -> Rows,
) -> (Vec<T>, ReadFailures) {
    let queries = by_shard(databases, ids, |id| *id).into_iter().map(|(index, ids)| {
        let rows = query(&databases.shards()[usize::from(index)], ids.iter().map(|id| id.get()).collect());
        async move { (ids, rows.await) }
    });
    let (mut rows, mut failed) = (Vec::new(), ReadFailures::new());
    for (ids, answer) in join_all(queries).await {
        match answer {
            Ok(found) => rows.extend(found),
            Err(error) => {
                let error = ServiceError::from(error);
                failed.extend(ids.into_iter().map(|id| (id, error.clone())));
            }
        }
    }
    (rows, failed)
}

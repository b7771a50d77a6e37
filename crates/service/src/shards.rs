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
pub(crate) async fn rows_by_ids<'a, T, Rows: Future<Output = Result<Vec<T>, StorageError>>>(
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use noetl_domain::shard::{BUCKETS, History, ShardMap};
    use noetl_runtime::clock;
    use noetl_storage::error::DatabaseName;

    #[tokio::test]
    async fn an_execution_that_moves_while_its_shard_fails_has_the_error() {
        let shard = |index| Arc::new(Database::new(DatabaseName::Shard(index), "postgres://".parse().unwrap(), 1));
        let shards = vec![shard(0), shard(1)];
        let databases = Databases::new(Arc::clone(&shards[0]), shards, ShardMap::even(2), clock::now());
        let ids: Vec<Id> = (1..100).map(Id::new).collect();
        let (here, there): (Vec<Id>, Vec<Id>) = ids.iter().copied().partition(|id| databases.index_of(*id) == 0);
        // All executions are on shard 1 from the time on at which shard 0 has failed.
        let switched = ShardMap::from_stored(vec![1; usize::from(BUCKETS)], 2).unwrap();
        let query = async |shard: &Database, ids: Vec<i64>| {
            if shard.shard_index() == 1 {
                return Ok(ids);
            }
            assert!(databases.replace_map(switched.clone().with_history(1, History::default())));
            Err(StorageError::Unavailable { database: shard.name(), reason: "it was stopped".to_owned() })
        };
        let (rows, failed) = rows_by_ids(&databases, ids, query).await;
        assert_eq!(rows.into_iter().map(Id::new).collect::<Vec<Id>>(), there);
        assert_eq!(failed.keys().copied().collect::<Vec<Id>>(), here);
        assert!(failed.values().all(|error| error.unavailable() == Some(DatabaseName::Shard(0))));
    }
}

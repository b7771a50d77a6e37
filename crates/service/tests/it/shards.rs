//! Reads of many executions on several shards.

use std::sync::Arc;

use noetl_domain::ids::Id;
use noetl_domain::shard::{BUCKETS, Moves, ShardMap};
use noetl_runtime::clock;
use noetl_service::shards::rows_by_ids;
use noetl_storage::error::{DatabaseName, StorageError};
use noetl_storage::pools::{Database, Databases};

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
        assert!(databases.replace_map(switched.clone().with_moves(1, Moves::default())));
        Err(StorageError::Unavailable { database: shard.name(), reason: "it was stopped".to_owned() })
    };
    let (rows, failed) = rows_by_ids(&databases, ids, query).await;
    assert_eq!(rows.into_iter().map(Id::new).collect::<Vec<Id>>(), there);
    assert_eq!(failed.keys().copied().collect::<Vec<Id>>(), here);
    assert!(failed.values().all(|error| error.unavailable() == Some(DatabaseName::Shard(0))));
}

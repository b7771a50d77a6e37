//! How publishing goes, read from the shards.

use futures::future::join_all;

use super::error::ServiceError;
use crate::domain::shard::ShardIndex;
use crate::storage::pools::Databases;
use crate::storage::tail::{self, TailStatus};

/// Each shard's feed; `Ok(None)`: nobody has published yet.
pub async fn status(databases: &Databases) -> Vec<(ShardIndex, Result<Option<TailStatus>, ServiceError>)> {
    let shards = databases.shards().iter().zip(0..);
    let statuses = shards.map(async |(shard, index)| (index, tail::status(shard).await.map_err(ServiceError::from)));
    join_all(statuses).await
}

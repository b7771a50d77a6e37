//! Status of event publishing, read from the shards.

use futures::future::join_all;

use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::pools::{Database, Databases};
use noetl_storage::tail::{self, TailStatus};
use noetl_storage::transactions::{self, Prepared};
use noetl_use_cases::error::ServiceError;

/// Publishing status of one shard.
#[derive(Debug, Clone)]
pub struct FeedStatus {
    /// Status of the feed; `None`: the feed has not begun.
    pub tail: Option<TailStatus>,
    /// Prepared transactions. Their events are published only after each is committed.
    pub prepared: Prepared,
}

/// Reads the publishing status of every shard, in parallel.
pub(super) async fn status(databases: &Databases) -> Vec<(ShardIndex, Result<FeedStatus, ServiceError>)> {
    let shards = databases.shards().iter().zip(0..);
    join_all(shards.map(async |(shard, index)| (index, of(shard).await.map_err(ServiceError::from)))).await
}

async fn of(shard: &Database) -> Result<FeedStatus, StorageError> {
    let (tail, prepared) = tokio::try_join!(tail::status(shard), transactions::prepared(shard))?;
    Ok(FeedStatus { tail, prepared })
}

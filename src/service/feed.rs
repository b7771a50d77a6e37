//! How publishing goes, read from the shards.

use futures::future::join_all;

use super::error::ServiceError;
use crate::domain::shard::ShardIndex;
use crate::storage::error::StorageError;
use crate::storage::pools::{Database, Databases};
use crate::storage::tail::{self, TailStatus};
use crate::storage::transactions::{self, Prepared};

/// How publishing one shard's events goes.
#[derive(Debug, Clone)]
pub struct FeedStatus {
    /// The feed; `None`: nobody has published yet.
    pub tail: Option<TailStatus>,
    /// Transactions whose events wait for somebody to settle them.
    pub prepared: Prepared,
}

/// Each shard's feed.
pub async fn status(databases: &Databases) -> Vec<(ShardIndex, Result<FeedStatus, ServiceError>)> {
    let shards = databases.shards().iter().zip(0..);
    join_all(shards.map(async |(shard, index)| (index, of(shard).await.map_err(ServiceError::from)))).await
}

async fn of(shard: &Database) -> Result<FeedStatus, StorageError> {
    let (tail, prepared) = tokio::try_join!(tail::status(shard), transactions::prepared(shard))?;
    Ok(FeedStatus { tail, prepared })
}

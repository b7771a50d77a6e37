//! One list over all shards: each is asked for one page beyond the cursor, and the answers are merged by id.

use futures::future::join_all;

use super::error::ServiceError;
use crate::domain::page::{IdRange, Page, PageRequest};
use crate::domain::shard::ShardIndex;
use crate::storage::error::StorageError;
use crate::storage::pools::{Database, Databases};

/// A page, and the shards whose rows it may lack.
#[derive(Debug)]
pub struct Listing<T> {
    /// What the reachable shards gave.
    pub page: Page<T>,
    /// Shards that could not be reached.
    pub unavailable: Vec<ShardIndex>,
}

/// A page with the largest id first, over every shard.
pub async fn newest_first<T>(
    databases: &Databases,
    request: &PageRequest<i64>,
    id: impl Fn(&T) -> i64,
    query: impl AsyncFn(&Database, IdRange) -> Result<Vec<T>, StorageError>,
) -> Result<Listing<T>, ServiceError> {
    let range = request.newest_first();
    let answers = join_all(databases.shards().iter().map(|shard| query(shard, range))).await;
    let (mut rows, mut unavailable) = (Vec::new(), Vec::new());
    for (index, answer) in (0..).zip(answers) {
        match answer {
            Ok(found) => rows.extend(found),
            Err(StorageError::Unavailable { .. }) => unavailable.push(index),
            Err(error) => return Err(error.into()),
        }
    }
    rows.sort_unstable_by_key(&id);
    if range.descending {
        rows.reverse();
    }
    Ok(Listing { page: request.cut(rows), unavailable })
}

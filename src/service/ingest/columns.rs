//! Columns of the shards' event tables that this product does not know. Another program may add some at any time.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::Mutex;
use tokio::time::Instant;

use noetl_storage::ingest::{self, OtherColumns};
use noetl_storage::pools::Databases;

/// Time for which the columns are not read again.
const FRESH: Duration = Duration::from_mins(1);

/// Recently read columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns(Arc<Mutex<Option<Read>>>);

#[derive(Debug)]
struct Read {
    at: Instant,
    shards: Arc<[OtherColumns]>,
}

impl Columns {
    /// Returns the other columns of each shard. A shard that can't be read has none; its inserts fail too.
    pub(super) async fn of_each_shard(&self, databases: &Databases) -> Arc<[OtherColumns]> {
        let mut last = self.0.lock().await;
        if let Some(read) = last.as_ref().filter(|read| read.at.elapsed() < FRESH) {
            return Arc::clone(&read.shards);
        }
        let reads = join_all(databases.shards().iter().map(|shard| ingest::other_columns(shard))).await;
        let complete = reads.iter().all(Result::is_ok);
        let shards: Arc<[OtherColumns]> = reads.into_iter().map(Result::unwrap_or_default).collect();
        *last = complete.then(|| Read { at: Instant::now(), shards: Arc::clone(&shards) });
        shards
    }
}

//! Columns of the shards' event tables that this product does not know. Another program may add some at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use noetl_domain::shard::ShardIndex;
use noetl_runtime::causes::WithCauses;
use noetl_storage::ingest::{self, OtherColumns};
use noetl_storage::pools::Databases;

/// Time for which the columns of a shard are not read again.
const FRESH: Duration = Duration::from_mins(1);

/// Columns by shard.
pub(super) type ColumnsByShard = BTreeMap<ShardIndex, Arc<OtherColumns>>;

/// Recently read columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns(Arc<Mutex<BTreeMap<ShardIndex, Recent>>>);

#[derive(Debug)]
struct Recent {
    at: Instant,
    columns: Arc<OtherColumns>,
}

impl Columns {
    /// Returns the other columns of these shards, without the shards that can't be read; their inserts fail too.
    pub(super) async fn of(&self, databases: &Databases, shards: BTreeSet<ShardIndex>) -> ColumnsByShard {
        let reads = shards.into_iter().map(async |shard| Some((shard, self.of_shard(databases, shard).await?)));
        join_all(reads).await.into_iter().flatten().collect()
    }

    async fn of_shard(&self, databases: &Databases, shard: ShardIndex) -> Option<Arc<OtherColumns>> {
        let recent = self.lock().get(&shard).filter(|recent| recent.at.elapsed() < FRESH).map(|it| it.columns.clone());
        if recent.is_some() {
            return recent;
        }
        let read = ingest::other_columns(&databases.shards()[usize::from(shard)]).await;
        let read = read.inspect_err(
            |error| tracing::warn!(shard, error = %WithCauses(error), "the columns of events can't be read"),
        );
        let columns = Arc::new(read.ok()?);
        self.lock().insert(shard, Recent { at: Instant::now(), columns: Arc::clone(&columns) });
        Some(columns)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ShardIndex, Recent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

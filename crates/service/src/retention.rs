//! Retention of events.
//!
//! Whole partitions are dropped. A partition is dropped if all its events are older than the retention and published,
//! and all its logs have ended. Then the rows derived from these events are deleted. If a partition is kept, the reason
//! is logged and counted, and the run continues with the next one.
//!
//! The work is idempotent and can be repeated after a crash between any two steps: derived rows without a log are found
//! by the ranges of ids that no partition holds. Unsettled outbox rows are never deleted. The rows of a bucket that has
//! moved away are dropped with their partition too.

use std::iter;
use std::ops::Range;
use std::time::Duration;

use tokio::time::sleep;

use noetl_domain::partition::{Partition, gaps};
use noetl_domain::shard::ShardIndex;
use noetl_storage::error::StorageError;
use noetl_storage::moves::journal;
use noetl_storage::pools::Databases;
use noetl_storage::retention::{self, KeepReason, Turn};
use noetl_storage::view::View;
use noetl_use_cases::error::ServiceError;

/// Attempts to take the table lock before the partition is kept until the next run.
const LOCK_ATTEMPTS: usize = 3;
/// Pause between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(500);

/// Retention settings of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Number of days for which events are kept; `None`: forever.
    pub days: Option<u32>,
    /// Whether events are published. If not, no partition is dropped.
    pub publishes: bool,
}

/// Report of a run that does nothing.
const ELSEWHERE: &str = "another process runs the retention of this shard";

impl Retention {
    /// Drops the expired partitions of one shard, and deletes their derived rows. Returns what was done. The index must
    /// be one of a shard.
    #[tracing::instrument(level = "debug", name = "retention.enforce", skip_all, fields(shard = index))]
    pub async fn enforce(self, databases: &Databases, index: ShardIndex) -> Result<String, ServiceError> {
        let Some(days) = self.days else {
            return Ok("events are kept forever: NOETL_EVENT_RETENTION_DAYS is not set".to_owned());
        };
        if !self.publishes {
            return Ok("no partition is dropped while NOETL_EVENT_STREAM_ENABLED is false".to_owned());
        }
        let Some(mut turn) = Turn::take(databases.view(index)).await? else {
            return Ok(ELSEWHERE.to_owned());
        };
        // The lock is free, so no command copies to the shard. But one that lost its session may still switch a move
        // that is fenced: then the map of before the switch would not show that its logs keep their partition.
        if journal::is_fenced(databases.cluster(), index).await? {
            turn.end().await?;
            return Ok(ELSEWHERE.to_owned());
        }
        // By an outdated map, the logs of a bucket that has arrived would not keep their partition.
        databases.refresh_map().await?;
        let shard = databases.view(index);
        turn.set_view(shard.clone());
        let cutoff = turn.cutoff(i32::try_from(days).unwrap_or(i32::MAX)).await?;
        let (mut dropped, mut kept) = (Vec::new(), Vec::new());
        for partition in turn.partitions().await?.into_iter().filter(|partition| partition.to <= cutoff) {
            let name = partition.name.clone();
            if let Some(reason) = drop_or_keep(&mut turn, partition, cutoff).await? {
                kept.push((name, reason));
            } else {
                tracing::info!(database = %shard.name(), partition = name, "dropped an event partition");
                metrics::counter!("noetl_event_partitions_dropped_total").increment(1);
                dropped.push(name);
            }
        }
        kept.extend(turn.old_default(cutoff).await?.map(|name| (name, KeepReason::DefaultPartition)));
        for (partition, reason) in &kept {
            tracing::info!(database = %shard.name(), partition, %reason, "kept an old event partition");
            metrics::counter!("noetl_event_partitions_kept_total", "reason" => reason.label()).increment(1);
        }
        let executions = purge(&shard, &gaps(&(0..cutoff), &turn.partitions().await?), cutoff).await?;
        metrics::counter!("noetl_retention_executions_purged_total").increment(executions);
        turn.end().await?;
        let count = format!("dropped {} partitions and the derived rows of {executions} executions", dropped.len());
        let dropped = dropped.iter().map(|name| format!("{name} was dropped"));
        let kept = kept.iter().map(|(name, reason)| format!("{name} stays: {reason}"));
        Ok(iter::once(count).chain(dropped).chain(kept).collect::<Vec<_>>().join("; "))
    }
}

/// Drops a partition. Returns the reason if it is kept.
async fn drop_or_keep(
    turn: &mut Turn<'_>,
    partition: Partition,
    cutoff: i64,
) -> Result<Option<KeepReason>, StorageError> {
    let judged = match turn.judge(partition, cutoff).await? {
        Ok(judged) => judged,
        Err(kept) => return Ok(Some(kept)),
    };
    for _ in 1..LOCK_ATTEMPTS {
        match turn.drop_partition(&judged).await? {
            Some(KeepReason::Busy) => sleep(LOCK_PAUSE).await,
            settled => return Ok(settled),
        }
    }
    turn.drop_partition(&judged).await
}

async fn purge(shard: &View<'_>, ranges: &[Range<i64>], cutoff: i64) -> Result<u64, StorageError> {
    let mut executions = 0;
    for range in ranges {
        let mut next = range.start;
        loop {
            let purged = retention::purge_derived(shard, next, range.end, cutoff).await?;
            executions += u64::try_from(purged.executions).unwrap_or_default();
            match purged.last {
                Some(last) => next = last.saturating_add(1),
                None => break,
            }
        }
    }
    Ok(executions)
}

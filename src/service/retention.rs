//! How long events are kept. Whole partitions go, each when every event in it is older than the retention, published, and
//! of a log that has ended; with them goes what was derived from their events. What keeps a partition is logged and counted.
//!
//! It can be done again at any time, and after a crash between any two steps: what is left of logs that are gone is found
//! by the ranges of ids that no partition holds any more. Outbox rows that are not settled stay, whatever their age.

use std::fmt;
use std::time::Duration;

use tokio::time::sleep;

use super::error::ServiceError;
use crate::storage::error::StorageError;
use crate::storage::pools::Database;
use crate::storage::retention::{self, Kept, Partition, Turn};

/// How often the lock on a busy table is wished for.
const ATTEMPTS: usize = 3;
/// How long the table is left alone in between.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

/// What a deployment decided about its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// `None`: they are kept for ever.
    pub days: Option<u32>,
    /// Whether events are published: nothing goes that could not be.
    pub publishes: bool,
}

/// What became of one shard's old events.
#[derive(Debug, PartialEq, Eq)]
pub enum Enforced {
    /// No retention is set.
    Unlimited,
    /// Events are not published.
    NotPublished,
    /// Another process is at it.
    Elsewhere,
    /// This much.
    Done {
        /// The partitions that went.
        dropped: Vec<String>,
        /// The ones that are old enough and stay.
        kept: Vec<(String, Kept)>,
        /// Executions whose derived rows went.
        executions: u64,
    },
}

impl Retention {
    /// Drops what may go of one shard.
    #[tracing::instrument(level = "debug", name = "retention.enforce", skip_all, fields(database = %shard.name()))]
    pub async fn enforce(self, shard: &Database) -> Result<Enforced, ServiceError> {
        let Some(days) = self.days else {
            return Ok(Enforced::Unlimited);
        };
        if !self.publishes {
            return Ok(Enforced::NotPublished);
        }
        let Some(mut turn) = Turn::take(shard).await? else {
            return Ok(Enforced::Elsewhere);
        };
        let cutoff = turn.cutoff(i32::try_from(days).unwrap_or(i32::MAX)).await?;
        let (mut dropped, mut kept) = (Vec::new(), Vec::new());
        for partition in turn.partitions().await?.into_iter().filter(|partition| partition.to <= cutoff) {
            let name = partition.name.clone();
            if let Some(reason) = retire(&mut turn, partition, cutoff).await? {
                tracing::info!(database = %shard.name(), partition = name, %reason, "kept an old event partition");
                metrics::counter!("noetl_event_partitions_kept_total", "reason" => reason.label()).increment(1);
                kept.push((name, reason));
            } else {
                tracing::info!(database = %shard.name(), partition = name, "dropped an event partition");
                metrics::counter!("noetl_event_partitions_dropped_total").increment(1);
                dropped.push(name);
            }
        }
        let executions = purge(shard, &uncovered(&turn.partitions().await?, cutoff)).await?;
        metrics::counter!("noetl_retention_executions_purged_total").increment(executions);
        turn.end().await?;
        Ok(Enforced::Done { dropped, kept, executions })
    }
}

/// Drops a partition, or says what keeps it.
async fn retire(turn: &mut Turn<'_>, partition: Partition, cutoff: i64) -> Result<Option<Kept>, StorageError> {
    let judged = match turn.judge(partition, cutoff).await? {
        Ok(judged) => judged,
        Err(kept) => return Ok(Some(kept)),
    };
    for _ in 1..ATTEMPTS {
        match turn.drop_partition(&judged).await? {
            Some(Kept::Busy) => sleep(BUSY_PAUSE).await,
            settled => return Ok(settled),
        }
    }
    turn.drop_partition(&judged).await
}

async fn purge(shard: &Database, ranges: &[(i64, i64)]) -> Result<u64, StorageError> {
    let mut executions = 0;
    for (from, to) in ranges {
        let mut next = *from;
        loop {
            let purged = retention::purge_derived(shard, next, *to).await?;
            executions += u64::try_from(purged.executions).unwrap_or_default();
            match purged.last {
                Some(last) => next = last.saturating_add(1),
                None => break,
            }
        }
    }
    Ok(executions)
}

/// The ranges of ids below `cutoff` that no partition with bounds holds.
fn uncovered(partitions: &[Partition], cutoff: i64) -> Vec<(i64, i64)> {
    let (mut ranges, mut covered) = (Vec::new(), 0);
    for partition in partitions {
        ranges.push((covered, partition.from.min(cutoff)));
        covered = covered.max(partition.to);
    }
    ranges.push((covered, cutoff));
    ranges.retain(|(from, to)| from < to);
    ranges
}

impl fmt::Display for Enforced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("events are kept for ever; NOETL_EVENT_RETENTION_DAYS is not set"),
            Self::NotPublished => f.write_str("nothing goes while NOETL_EVENT_STREAM_ENABLED is false"),
            Self::Elsewhere => f.write_str("another process is at it"),
            Self::Done { dropped, kept, executions } => {
                write!(f, "dropped {} partitions and what was derived for {executions} executions", dropped.len())?;
                dropped.iter().try_for_each(|name| write!(f, "; {name} is gone"))?;
                kept.iter().try_for_each(|(name, reason)| write!(f, "; {name} stays: {reason}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_partition_holds_is_found_up_to_the_cutoff() {
        let partition = |from, to| Partition { name: String::new(), from, to };
        let partitions = [partition(i64::MIN, 10), partition(20, 30), partition(30, 40), partition(60, 70)];
        assert_eq!(uncovered(&partitions, 55), [(10, 20), (40, 55)]);
        assert_eq!(uncovered(&partitions, 65), [(10, 20), (40, 60)]);
        assert_eq!(uncovered(&partitions, 80), [(10, 20), (40, 60), (70, 80)]);
        assert_eq!(uncovered(&partitions, 15), [(10, 15)]);
        assert_eq!(uncovered(&[], 15), [(0, 15)]);
    }
}

//! Publishing a shard's committed events: one leader per shard in the whole deployment.
//!
//! A turn of the leader: find what committed, fix the batch in the cursor row, append it to the stream, note it as done.
//! The fence in every cursor write and the expected sequence in every publish make a stale leader harmless; the lease
//! only decides who tries. On taking over, and after any failure, the stream's last message says how much of the fixed
//! batch is stored, and the rest is appended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::publisher::{Batch, PublishError, Publisher, StreamEnd, StreamSettings};
use super::wake;
use crate::domain::shard::ShardIndex;
use crate::domain::tx_snapshot::TxSnapshot;
use crate::service::wake::Wakes;
use crate::storage::error::StorageError;
use crate::storage::pools::Database;
use crate::storage::tail::{self, TailCursor};

/// How long leadership holds without renewal. A killed leader is followed within this and one [`STANDBY_POLL`].
const LEASE: Duration = Duration::from_secs(3);
const RENEW_EVERY: Duration = Duration::from_secs(1);
const STANDBY_POLL: Duration = Duration::from_secs(1);
/// The shortest idle poll; it doubles up to the configured one.
const BUSY_POLL: Duration = Duration::from_millis(10);
const AFTER_FAILURE: Duration = Duration::from_millis(500);
const LOOK_AT_CONNECTION: Duration = Duration::from_millis(100);

/// How a tailer works.
#[derive(Debug, Clone, Copy)]
pub struct TailSettings {
    /// Events that may be on their way to the broker at a time.
    pub batch: usize,
    /// The longest idle poll.
    pub poll: Duration,
    /// Whether a feed that starts for the first time begins with the oldest event.
    pub backfill: bool,
    /// How streams are created.
    pub stream: StreamSettings,
}

/// One shard's tailer on this replica.
#[derive(Debug)]
pub struct Tailer {
    /// Which shard.
    pub shard: ShardIndex,
    /// Its database.
    pub database: Arc<Database>,
    /// The broker.
    pub client: async_nats::Client,
    /// What the lease is held under; unique to this process.
    pub owner: String,
    /// How it works.
    pub settings: TailSettings,
    /// Rung by writers of this replica.
    pub local: Wakes,
    /// Rung by writers elsewhere.
    pub remote: Wakes,
}

/// Why a leader stopped leading.
#[derive(Debug, thiserror::Error)]
enum LeadError {
    #[error("another replica took over")]
    Fenced,
    #[error("the broker lost acknowledged events")]
    BrokerLost,
    #[error("the broker's connection was lost, and with it acknowledgements")]
    Reconnected,
    #[error(
        "the database was restored or failed over, so its transaction ids can't be compared with the cursor's; \
         publishing stops until the cursor is set anew"
    )]
    DatabaseChanged,
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl Tailer {
    /// Leads or stands by until `stop`; then gives the lease back.
    pub async fn run(self, stop: CancellationToken) {
        let mut begun = false;
        while !stop.is_cancelled() {
            let turn = async {
                if !begun {
                    tail::begin(&self.database, self.settings.backfill).await?;
                    begun = true;
                }
                tail::acquire(&self.database, &self.owner, LEASE.as_secs_f64()).await
            };
            match turn.await {
                Ok(Some(cursor)) => self.lead(cursor, &stop).await,
                Ok(None) => self.stand_by(&stop).await,
                Err(error) => {
                    tracing::debug!(shard = self.shard, %error, "no lease");
                    pause(AFTER_FAILURE, &stop).await;
                }
            }
        }
    }

    /// Passes hints on to the leader until it is time to ask for the lease again.
    async fn stand_by(&self, stop: &CancellationToken) {
        let passing_on = async {
            loop {
                self.local.rung(self.shard).await;
                wake::pass_on(&self.client, self.shard).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = passing_on => {}
            () = sleep(STANDBY_POLL) => {}
        }
    }

    async fn lead(&self, cursor: TailCursor, stop: &CancellationToken) {
        let fence = cursor.fence;
        tracing::info!(shard = self.shard, fence, batch = cursor.batch, "leading the event feed");
        metrics::counter!("noetl_tailer_takeovers_total", "shard" => self.shard.to_string()).increment(1);
        let outcome = tokio::select! {
            () = stop.cancelled() => None,
            lost = self.keep_lease(fence) => Some(lost),
            Err(error) = self.publish(cursor) => Some(error),
        };
        let failure = outcome.as_ref().map(ToString::to_string);
        if let Some(error) = &failure {
            tracing::warn!(shard = self.shard, fence, error, "stopped leading the event feed");
        }
        if let Err(error) = tail::release(&self.database, fence, failure.as_deref()).await {
            tracing::debug!(shard = self.shard, %error, "the lease runs out by itself");
        }
        if failure.is_some() {
            pause(AFTER_FAILURE, stop).await;
        }
    }

    async fn keep_lease(&self, fence: i64) -> LeadError {
        let mut ticks = interval(RENEW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match tail::renew(&self.database, fence, LEASE.as_secs_f64()).await {
                Ok(true) => {}
                Ok(false) => return LeadError::Fenced,
                Err(error) => return error.into(),
            }
        }
    }

    async fn publish(&self, mut cursor: TailCursor) -> Result<std::convert::Infallible, LeadError> {
        if cursor.database_changed {
            return Err(LeadError::DatabaseChanged);
        }
        let publisher =
            Publisher::open(self.client.clone(), self.shard, self.settings.stream, self.settings.batch).await?;
        if cursor.batch == 0 {
            // Nothing of ours can be in the stream yet, whatever others put there.
            cursor.last_sequence = publisher.sequence().await?.cast_signed();
        }
        let mut connects = self.connects();
        let mut end = match self.look(&publisher, &cursor).await {
            Err(LeadError::BrokerLost) => {
                cursor = self.rewind(&publisher, cursor).await?;
                self.look(&publisher, &cursor).await?
            }
            looked => looked?,
        };
        let mut idle = BUSY_POLL;
        loop {
            // Behind a connection that was lost there may be a broker that lost its data, also when nothing commits.
            let seen = self.connects();
            if seen != connects {
                (connects, end) = (seen, self.look(&publisher, &cursor).await?);
            }
            if let Some(target) = cursor.target.take() {
                let sequence = tokio::select! {
                    finished = self.finish_batch(&publisher, &cursor, target.clone(), end) => finished?,
                    () = self.reconnected(connects) => return Err(LeadError::Reconnected),
                };
                (cursor.done, cursor.last_sequence) = (target, sequence.cast_signed());
                (end, idle) = (StreamEnd { sequence, last: None }, BUSY_POLL);
            }
            match tail::next_target(&self.database, &cursor.done).await? {
                Some(target) => {
                    // Where the batch begins in the stream, so that nobody looks for it among older messages.
                    cursor.last_sequence = end.sequence.cast_signed();
                    let fixed = tail::fix_target(&self.database, cursor.fence, &target, cursor.last_sequence).await?;
                    cursor.batch = fixed.ok_or(LeadError::Fenced)?;
                    cursor.target = Some(target);
                }
                None => idle = self.wait(idle).await,
            }
        }
    }

    /// Where the stream ends, which can't be below what the cursor knows to be in it.
    async fn look(&self, publisher: &Publisher, cursor: &TailCursor) -> Result<StreamEnd, LeadError> {
        let floor = cursor.last_sequence.cast_unsigned();
        let end = publisher.end(floor).await?;
        if end.sequence < floor { Err(LeadError::BrokerLost) } else { Ok(end) }
    }

    /// How often the broker's connection has come up.
    fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Returns when the broker's connection has come up again.
    async fn reconnected(&self, connects: u64) {
        while self.connects() == connects {
            sleep(LOOK_AT_CONNECTION).await;
        }
    }

    /// Waits for a hint, or for the idle poll. Answers the next idle poll.
    async fn wait(&self, idle: Duration) -> Duration {
        let hint = async {
            tokio::select! {
                () = self.local.rung(self.shard) => {}
                () = self.remote.rung(self.shard) => {}
            }
        };
        match timeout(idle, hint).await {
            Ok(()) => BUSY_POLL,
            Err(_) => (idle * 2).min(self.settings.poll),
        }
    }

    /// Appends what of the fixed batch is not in the stream, as often as it takes, and notes it as done. Answers the
    /// stream's last sequence.
    async fn finish_batch(
        &self,
        publisher: &Publisher,
        cursor: &TailCursor,
        target: TxSnapshot,
        mut end: StreamEnd,
    ) -> Result<u64, LeadError> {
        let (epoch, number, done) = (cursor.feed_epoch, cursor.batch, cursor.done.clone());
        let batch = Batch { epoch, number, done, target };
        let mut distinct = None;
        loop {
            let from = stored(&end, number);
            let events = tail::read_batch(&self.database, &batch.done, &batch.target);
            match publisher.append(&batch, events, from, end.sequence, distinct).await {
                Ok((sequence, appended)) => {
                    let total = (from + appended).cast_signed();
                    if !tail::complete(&self.database, cursor.fence, sequence.cast_signed(), total).await? {
                        return Err(LeadError::Fenced);
                    }
                    metrics::counter!("noetl_tailer_published_total", "shard" => self.shard.to_string())
                        .increment(appended);
                    return Ok(sequence);
                }
                Err(PublishError::OutOfStep) => {
                    metrics::counter!("noetl_tailer_refused_total", "shard" => self.shard.to_string()).increment(1);
                }
                Err(PublishError::Repetition(index)) => distinct = Some(index),
                Err(error) => return Err(error.into()),
            }
            if !tail::renew(&self.database, cursor.fence, LEASE.as_secs_f64()).await? {
                return Err(LeadError::Fenced);
            }
            end = self.look(publisher, cursor).await?;
        }
    }

    /// The broker lost messages that it had acknowledged. Goes back to where its stream ends, under a new epoch: to the
    /// batch of its last message, or, if none is left, to the feed's beginning.
    async fn rewind(&self, publisher: &Publisher, cursor: TailCursor) -> Result<TailCursor, LeadError> {
        let found = publisher.end(0).await?;
        let mut back = TailCursor {
            done: cursor.origin.clone(),
            target: None,
            last_sequence: found.sequence.cast_signed(),
            feed_epoch: cursor.feed_epoch + 1,
            ..cursor
        };
        if let Some((sequence, mark)) = found.last {
            let first = sequence.saturating_sub(mark.index);
            if let Some((done, target)) = publisher.mark(first).await?.and_then(|mark| mark.span) {
                (back.done, back.target, back.batch) = (done, Some(target), mark.batch);
                back.last_sequence = first.saturating_sub(1).cast_signed();
            }
        }
        tracing::error!(
            shard = self.shard,
            lost_after = found.sequence,
            recorded = cursor.last_sequence,
            epoch = back.feed_epoch,
            "the broker lost acknowledged events; publishing them again"
        );
        metrics::counter!("noetl_tailer_rewinds_total", "shard" => self.shard.to_string()).increment(1);
        if tail::rewind(&self.database, &back).await? { Ok(back) } else { Err(LeadError::Fenced) }
    }
}

/// How many events of a batch the stream holds.
fn stored(end: &StreamEnd, batch: i64) -> u64 {
    match &end.last {
        Some((_, mark)) if mark.batch == batch => mark.index + 1,
        _ => 0,
    }
}

async fn pause(duration: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = sleep(duration) => {}
    }
}

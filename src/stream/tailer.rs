//! Publishing a shard's committed events: one leader per shard in the whole deployment.
//!
//! A turn of the leader: find what committed, fix the batch in the cursor row, append it to the stream, note it as done.
//! The fence in every cursor write and the expected sequence in every publish make a stale leader harmless; the lease
//! only decides who tries. On taking over, and after any failure, the stream's last message says how much of the fixed
//! batch is stored, and the rest is appended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::idle::Idle;
use super::notice::ForeignMessages;
use super::publisher::{Batch, PublishError, Publisher, Resume, StreamEnd, StreamSettings};
use super::wake;
use crate::domain::event::EventKey;
use crate::domain::shard::ShardIndex;
use crate::domain::tx_snapshot::TxSnapshot;
use crate::service::wake::Wakes;
use crate::storage::error::StorageError;
use crate::storage::pools::Database;
use crate::storage::tail::{self, TailCursor};
use crate::storage::tail_session::TailSession;

/// How long leadership holds without renewal. A killed leader is followed within this and one [`STANDBY_POLL`].
const LEASE: Duration = Duration::from_secs(3);
const RENEW_EVERY: Duration = Duration::from_secs(1);
const REPORT_EVERY: Duration = Duration::from_secs(5);
const STANDBY_POLL: Duration = Duration::from_secs(1);
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
pub(super) enum LeadError {
    #[error("another replica took over")]
    Fenced,
    #[error("the broker lost acknowledged events")]
    BrokerLost,
    #[error("the broker's connection was lost, and with it acknowledgements")]
    Reconnected,
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
            never = self.report_lag() => match never {},
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

    /// Shows what waits to be published as metrics, again and again. The lease does not wait for it.
    async fn report_lag(&self) -> std::convert::Infallible {
        loop {
            sleep(REPORT_EVERY).await;
            let Ok(Some(status)) = tail::status(&self.database).await else { continue };
            let shard = self.shard.to_string();
            let events = u32::try_from(status.lag_events).unwrap_or(u32::MAX);
            metrics::gauge!("noetl_tailer_lag_events", "shard" => shard.clone()).set(events);
            metrics::gauge!("noetl_tailer_lag_seconds", "shard" => shard.clone()).set(status.lag_seconds);
            metrics::gauge!("noetl_tailer_oldest_open_transaction_seconds", "shard" => shard)
                .set(status.oldest_open_transaction_seconds.unwrap_or_default());
        }
    }

    async fn publish(&self, cursor: TailCursor) -> Result<std::convert::Infallible, LeadError> {
        let mut session = TailSession::open(Arc::clone(&self.database), cursor.fence).await?;
        let settings = self.settings;
        let mut publisher = Publisher::open(self.client.clone(), self.shard, settings.stream, settings.batch).await?;
        let mut connects = self.connects();
        let epoch = cursor.feed_epoch;
        let (mut cursor, mut end) = self.recover(&publisher, cursor).await?;
        // What had been published before is in the batch gone back to, and in the one behind it.
        let again = if cursor.feed_epoch > epoch { cursor.batch + 1 } else { 0 };
        let (mut idle, mut foreign) = (Idle::new(settings.poll), ForeignMessages::default());
        loop {
            // Behind a connection that was lost there may be a broker that lost its data, also when nothing commits.
            let seen = self.connects();
            if seen != connects {
                (connects, end) = (seen, self.look(&publisher, &cursor).await?);
            }
            if let Some(target) = cursor.target.take() {
                let mut turn = Turn { publisher: &mut publisher, session: &mut session, foreign: &mut foreign, again };
                let sequence = tokio::select! {
                    finished = self.finish_batch(&mut turn, &cursor, target.clone(), end) => finished?,
                    () = self.reconnected(connects) => return Err(LeadError::Reconnected),
                };
                (cursor.done, cursor.last_sequence) = (target, sequence.cast_signed());
                end = StreamEnd::at(sequence);
                idle.over();
            }
            match session.committed_since(&cursor.done).await? {
                Some(target) => {
                    // Where the batch begins in the stream, so that nobody looks for it among older messages.
                    cursor.last_sequence = end.sequence.cast_signed();
                    let fixed = session.fix_target(&target, cursor.last_sequence).await?;
                    cursor.batch = fixed.ok_or(LeadError::Fenced)?;
                    (cursor.target, end) =
                        (Some(target), StreamEnd { foreign: end.foreign, ..StreamEnd::at(end.sequence) });
                }
                None => self.wait(&mut idle).await,
            }
        }
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

    /// Waits for a hint, or until it is time to look again.
    async fn wait(&self, idle: &mut Idle) {
        tokio::select! {
            () = self.local.rung(self.shard) => idle.over(),
            () = self.remote.rung(self.shard) => idle.over(),
            () = sleep(idle.wait()) => {}
        }
    }

    /// Appends what of the fixed batch is not in the stream, as often as it takes, and notes it as done. Answers the
    /// stream's last sequence.
    async fn finish_batch(
        &self,
        turn: &mut Turn<'_>,
        cursor: &TailCursor,
        target: TxSnapshot,
        mut end: StreamEnd,
    ) -> Result<u64, LeadError> {
        let (epoch, number, done) = (cursor.feed_epoch, cursor.batch, cursor.done.clone());
        let batch = Batch { epoch, number, done, target };
        let mut distinct = None;
        loop {
            turn.foreign.found(self.shard, end.foreign);
            let Stand { index, behind, gone } = Stand::of(&end, number);
            let events = turn.session.read_batch(&batch.done, &batch.target, behind);
            let events = events.skip(usize::try_from(gone).unwrap_or(usize::MAX));
            let from = Resume { index, after: end.sequence, distinct };
            match turn.publisher.append(&batch, events, from).await {
                Ok(sequence) => {
                    self.complete(turn, number, sequence, index, sequence - end.sequence).await?;
                    return Ok(sequence);
                }
                Err(PublishError::OutOfStep) => {
                    metrics::counter!("noetl_tailer_refused_total", "shard" => self.shard.to_string()).increment(1);
                }
                Err(PublishError::Repetition(sequence)) => distinct = Some(sequence),
                Err(error) => return Err(error.into()),
            }
            if !tail::renew(&self.database, cursor.fence, LEASE.as_secs_f64()).await? {
                return Err(LeadError::Fenced);
            }
            end = self.look(turn.publisher, cursor).await?;
        }
    }

    /// Notes that a batch is done, of which `before` events were stored earlier and `appended` were appended now.
    async fn complete(
        &self,
        turn: &mut Turn<'_>,
        batch: i64,
        sequence: u64,
        before: u64,
        appended: u64,
    ) -> Result<(), LeadError> {
        let total = (before + appended).cast_signed();
        let notice = turn.foreign.text();
        if !turn.session.complete(sequence.cast_signed(), total, notice.as_deref()).await? {
            return Err(LeadError::Fenced);
        }
        let shard = self.shard.to_string();
        metrics::counter!("noetl_tailer_published_total", "shard" => shard.clone()).increment(appended);
        if batch <= turn.again {
            metrics::counter!("noetl_tailer_republished_total", "shard" => shard.clone()).increment(appended);
        }
        metrics::histogram!("noetl_tailer_batch_events", "shard" => shard)
            .record(f64::from(u32::try_from(total).unwrap_or(u32::MAX)));
        Ok(())
    }
}

/// What a turn works with.
struct Turn<'a> {
    publisher: &'a mut Publisher,
    session: &'a mut TailSession,
    foreign: &'a mut ForeignMessages,
    /// The last batch that may hold events which had been published before.
    again: i64,
}

/// How far a batch is in the stream.
struct Stand {
    /// The place in the batch of the next event.
    index: u64,
    /// The last event that is stored.
    behind: Option<EventKey>,
    /// Events that were stored and are gone, so that only their number is known.
    gone: u64,
}

impl Stand {
    fn of(end: &StreamEnd, batch: i64) -> Self {
        match &end.last {
            Some(last) if last.mark.batch == batch => {
                Self { index: last.mark.index + 1, behind: Some(last.key), gone: 0 }
            }
            // What followed the batch's beginning was the batch's own, unless somebody else publishes too; rather
            // publish an event again than never.
            None if end.foreign == 0 => Self { index: end.expired, behind: None, gone: end.expired },
            _ => Self { index: 0, behind: None, gone: 0 },
        }
    }
}

async fn pause(duration: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = sleep(duration) => {}
    }
}

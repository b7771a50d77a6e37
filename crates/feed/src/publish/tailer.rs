//! Publishing of a shard's committed events, by one leader per shard in the whole deployment.
//!
//! In each turn the leader finds the committed events, fixes the batch in the cursor row, appends it to the stream, and
//! marks it as done. The fence in every cursor write and the expected sequence in every publish make a stale leader
//! harmless; the lease only decides which replica tries. After a takeover, and after any failure, the stream's last
//! message shows how much of the fixed batch is stored, and the leader appends the rest.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::connection::State;
use futures::{StreamExt, future};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::publish::error::{PublishError, StandBack};
use crate::publish::idle::{Idle, StreamCheck};
use crate::publish::leader::Leader;
use crate::publish::notice::ForeignMessages;
use crate::publish::overlap::{Skipped, discard};
use crate::publish::publisher::{Batch, Publisher, Resume, StreamEnd, StreamSettings};
use crate::publish::repeated::LastFailure;
use crate::publish::rivals::Rivals;
use crate::wake_ups;
use crate::wire::names::StreamNames;
use noetl_domain::event::EventKey;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::wake::WakeUps;
use noetl_storage::error::StorageError;
use noetl_storage::pools::Database;
use noetl_storage::tail::{self, TailCursor};
use noetl_storage::tail_pages::BatchRead;
use noetl_storage::tail_session::TailSession;
use noetl_storage::triggers;

/// Duration of the lease. After a leader is killed, another replica takes over within this time plus one
/// [`STANDBY_POLL`].
const LEASE: Duration = Duration::from_secs(3);
/// Interval at which the leader renews its lease.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the lag is reported as metrics.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Interval at which a replica that is not the leader tries to take the lease.
const STANDBY_POLL: Duration = Duration::from_secs(1);
/// Pause after a failure. It is shorter than [`LEASE`], so a leader that keeps its lease continues.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
/// Pause of a leader that has lost its connection to the broker, so that a replica which has one can take the lease.
const WITHOUT_BROKER: Duration = Duration::from_secs(2);
/// Time for which the lease must have been free before a replica takes it that has no connection to the broker either.
const FREE_FOR: Duration = Duration::from_secs(5);
/// Interval of the checks whether a leader that stands back may publish.
const STAND_BACK: Duration = Duration::from_secs(2);
/// Time without progress after which a leader whose publishes are refused gives up, so that the cursor shows the reason.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Longest pause before a refused publish is tried again. The first attempt follows at once.
const MAX_REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// Interval at which the connection to the broker is checked.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Settings of a tailer.
#[derive(Debug, Clone, Copy)]
pub struct TailSettings {
    /// Approximate maximum number of events in flight to the broker.
    pub batch: usize,
    /// Longest poll interval of an idle leader.
    pub poll: Duration,
    /// True if a feed that starts for the first time begins with the oldest event.
    pub backfill: bool,
    /// Settings of streams that are created.
    pub stream: StreamSettings,
}

/// Tailer of one shard on this replica.
#[derive(Debug)]
pub struct Tailer {
    /// Shard whose events it publishes.
    pub shard: ShardIndex,
    /// Database of the shard.
    pub database: Arc<Database>,
    /// Connection to the broker.
    pub client: async_nats::Client,
    /// Names of the streams.
    pub names: StreamNames,
    /// Holder of the lease; unique to this process.
    pub owner: String,
    /// Settings.
    pub settings: TailSettings,
    /// Wake-ups from writers on this replica.
    pub local: WakeUps,
    /// Wake-ups from writers on other replicas.
    pub remote: WakeUps,
}

/// Cause for which a leader stops.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeadershipLost {
    #[error("another replica took over")]
    Fenced,
    #[error("the broker lost acknowledged events")]
    BrokerLost,
    #[error("the connection to the broker was lost, and acknowledgements with it")]
    Reconnected,
    #[error("another copy of this database published to the stream")]
    Overtaken,
    #[error(
        "nothing could be appended to the stream {stream} for {} s, because other messages arrive all the time; find the \
         client that publishes them",
        REFUSED_FOR.as_secs()
    )]
    Refused { stream: String },
    #[error(transparent)]
    StandBack(#[from] StandBack),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl LeadershipLost {
    /// Returns whether the broker is the cause, which hinders every other replica as well.
    fn is_of_broker(&self) -> bool {
        match self {
            Self::BrokerLost | Self::Reconnected | Self::Refused { .. } | Self::Publish(_) => true,
            Self::Fenced | Self::Overtaken | Self::StandBack(_) | Self::Storage(_) => false,
        }
    }
}

impl Tailer {
    /// Publishes as the leader, or stands by, until `stop`. Then releases the lease.
    pub async fn run(self, stop: CancellationToken) {
        self.show_leadership(false);
        let (mut begun, mut led, mut failures) = (false, false, LastFailure::default());
        let mut reports = interval(REPORT_EVERY);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            let turn = async {
                if !begun {
                    self.enable_triggers().await;
                    tail::begin(&self.database, self.settings.backfill).await?;
                    self.check_rights().await?;
                    begun = true;
                }
                let patience = if led || self.is_connected() { Duration::ZERO } else { FREE_FOR };
                tail::acquire(&self.database, &self.owner, LEASE.as_secs_f64(), patience.as_secs_f64()).await
            };
            match turn.await {
                Ok(Some(cursor)) => {
                    led = true;
                    Box::pin(self.lead(cursor, &mut failures, &mut reports, &stop)).await;
                }
                Ok(None) => {
                    if led {
                        self.show_leadership(false);
                        led = false;
                    }
                    self.stand_by(&stop).await;
                }
                Err(error) => {
                    tracing::debug!(shard = self.shard, %error, "the lease can't be requested now");
                    pause(AFTER_FAILURE, &stop).await;
                }
            }
        }
    }

    /// Forwards wake-ups to the leader until it is time to request the lease again.
    async fn stand_by(&self, stop: &CancellationToken) {
        let passing_on = async {
            loop {
                self.local.feed_woken(self.shard).await;
                wake_ups::forward(&self.client, &self.names, self.shard).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = passing_on => {}
            () = sleep(STANDBY_POLL) => {}
        }
    }

    /// Publishes until `stop`, or until this leader must stop. After a failure of the broker it keeps the lease, unless
    /// another replica may be connected to the broker and this one is not.
    async fn lead(
        &self,
        cursor: TailCursor,
        failures: &mut LastFailure,
        reports: &mut Interval,
        stop: &CancellationToken,
    ) {
        let fence = cursor.fence;
        if failures.is_recent() {
            tracing::debug!(shard = self.shard, fence, batch = cursor.batch, "tries again to lead the event feed");
        } else {
            tracing::info!(shard = self.shard, fence, batch = cursor.batch, "became the leader of the event feed");
        }
        self.show_leadership(true);
        let outcome = tokio::select! {
            () = stop.cancelled() => None,
            lost = self.keep_lease(fence) => Some(lost),
            never = self.report_lag(reports) => match never {},
            Err(error) = self.publish_unless_rivals(cursor) => Some(error),
        };
        let failure = outcome.as_ref().map(|lost| WithCauses(lost).to_string());
        match &failure {
            Some(error) if failures.is_new(error) => {
                tracing::warn!(shard = self.shard, fence, error, "stopped being the leader of the event feed");
            }
            Some(error) => tracing::debug!(shard = self.shard, fence, error, "the failure lasts"),
            None => {}
        }
        let reason = outcome.as_ref().map(ToString::to_string);
        let of_broker = outcome.as_ref().is_some_and(LeadershipLost::is_of_broker);
        if of_broker && self.is_connected() {
            if let Err(error) = tail::note_error(&self.database, fence, reason.as_deref().unwrap_or_default()).await {
                tracing::debug!(shard = self.shard, %error, "the reason of the failure was not stored");
            }
            pause(AFTER_FAILURE, stop).await;
            if !stop.is_cancelled() {
                return;
            }
        }
        // Without a connection to the broker, this replica shows the lag until another one is the leader.
        if !of_broker || stop.is_cancelled() {
            self.show_leadership(false);
        }
        if let Err(error) = tail::release(&self.database, fence, reason.as_deref()).await {
            tracing::debug!(shard = self.shard, %error, "the lease was not released and will expire");
        }
        match outcome {
            Some(LeadershipLost::StandBack(reason)) => {
                let labels = [("shard", self.shard.to_string()), ("because", reason.label().to_owned())];
                metrics::counter!("noetl_tailer_stood_back_total", &labels).increment(1);
                pause(STAND_BACK, stop).await;
            }
            Some(_) if of_broker => pause(WITHOUT_BROKER, stop).await,
            Some(_) => pause(AFTER_FAILURE, stop).await,
            None => {}
        }
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Publishes as [`Self::publish`] does, unless another copy of the database does so.
    async fn publish_unless_rivals(&self, cursor: TailCursor) -> Result<std::convert::Infallible, LeadershipLost> {
        let this = Leader::of(&cursor);
        let stand_back = |other: Leader| StandBack::Rival { stream: self.names.stream(self.shard), other, this };
        let met = Rivals::meet(self.client.clone(), self.names.leaders(self.shard), this).await?;
        let mut rivals = met.map_err(stand_back)?;
        tokio::select! {
            leader = rivals.answer() => Err(stand_back(leader?).into()),
            ended = self.publish(cursor) => ended,
        }
    }

    /// Renews the lease until another replica has it, or until it has expired because the renewals failed.
    async fn keep_lease(&self, fence: i64) -> LeadershipLost {
        let mut ticks = interval(RENEW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut expires = Instant::now() + LEASE;
        loop {
            ticks.tick().await;
            let requested = Instant::now();
            match tail::renew(&self.database, fence, LEASE.as_secs_f64()).await {
                Ok(true) => expires = requested + LEASE,
                Ok(false) => return LeadershipLost::Fenced,
                Err(error) if Instant::now() >= expires => return error.into(),
                Err(error) => tracing::debug!(shard = self.shard, fence, %error, "the lease could not be renewed yet"),
            }
        }
    }

    /// Sets the gauge of the leadership. The next leader reports the lag, so this one no longer does.
    fn show_leadership(&self, is_leader: bool) {
        let shard = self.shard.to_string();
        metrics::gauge!("noetl_tailer_is_leader", "shard" => shard.clone()).set(f64::from(u8::from(is_leader)));
        if !is_leader {
            metrics::gauge!("noetl_tailer_lag_events", "shard" => shard.clone()).set(0);
            metrics::gauge!("noetl_tailer_lag_seconds", "shard" => shard.clone()).set(0);
            metrics::gauge!("noetl_tailer_oldest_open_transaction_seconds", "shard" => shard).set(0);
        }
    }

    /// Reports the lag as metrics every [`REPORT_EVERY`], also over several leaderships. The renewal of the lease does not
    /// wait for it.
    async fn report_lag(&self, reports: &mut Interval) -> std::convert::Infallible {
        loop {
            reports.tick().await;
            let Ok(Some(status)) = tail::status(&self.database).await else { continue };
            let shard = self.shard.to_string();
            let events = u32::try_from(status.lag_events).unwrap_or(u32::MAX);
            metrics::gauge!("noetl_tailer_lag_events", "shard" => shard.clone()).set(events);
            metrics::gauge!("noetl_tailer_lag_seconds", "shard" => shard.clone()).set(status.lag_seconds);
            metrics::gauge!("noetl_tailer_oldest_open_transaction_seconds", "shard" => shard)
                .set(status.oldest_open_transaction_seconds.unwrap_or_default());
        }
    }

    /// Enables the triggers of events and fences for every writer, if a restore disabled them. The feed works without them.
    async fn enable_triggers(&self) {
        match triggers::enable(&self.database).await {
            Ok(changed) if changed.is_empty() => {}
            Ok(changed) => tracing::warn!(
                shard = self.shard,
                triggers = changed.join(", "),
                "triggers were disabled for some writers and are enabled again; rows that were restored meanwhile with \
                 transaction ids of another server are not published if the feed has passed these ids"
            ),
            Err(error) => tracing::warn!(shard = self.shard, %error, "the triggers can't be enabled"),
        }
    }

    /// Warns if the age of open transactions will not include those of other roles.
    async fn check_rights(&self) -> Result<(), StorageError> {
        if !tail::sees_transactions(&self.database).await? {
            tracing::warn!(
                shard = self.shard,
                "the role does not see the open transactions of other roles; GRANT pg_read_all_stats to it"
            );
        }
        Ok(())
    }

    async fn publish(&self, cursor: TailCursor) -> Result<std::convert::Infallible, LeadershipLost> {
        let mut session = TailSession::open(Arc::clone(&self.database), cursor.fence).await?;
        let settings = self.settings;
        let (client, names) = (self.client.clone(), self.names.clone());
        let feed = cursor.owner.feed;
        let mut publisher = Publisher::open(client, self.shard, feed, names, settings.stream, settings.batch).await?;
        let mut connects = self.connects();
        let epoch = cursor.feed_epoch;
        let (mut cursor, mut end) = self.recover(&publisher, cursor).await?;
        let mut skip = Skipped::read(&publisher, cursor.overlap).await?;
        metrics::counter!("noetl_tailer_takeovers_total", "shard" => self.shard.to_string()).increment(1);
        // After a rewind, only the batch gone back to and the next one can hold events that were published before.
        let again = if cursor.feed_epoch > epoch { cursor.batch + 1 } else { 0 };
        let (mut idle, mut foreign) = (Idle::new(settings.poll), ForeignMessages::new(publisher.stream_name()));
        let (mut check, mut works) = (StreamCheck::new(), false);
        let mut noetl_publishes = session.noetl_publishes().await?;
        loop {
            // After a reconnect the broker may have lost data, so the stream is checked even if nothing was committed.
            let seen = self.connects();
            if seen != connects {
                (connects, end) = (seen, self.look_again(&publisher, &cursor).await?);
            }
            if let Some(target) = cursor.target.clone() {
                let mut turn = Turn {
                    publisher: &mut publisher,
                    session: &mut session,
                    foreign: &mut foreign,
                    again,
                    noetl_publishes,
                    skip: &skip,
                };
                let finished = tokio::select! {
                    finished = self.finish_batch(&mut turn, &cursor, target.clone(), end) => finished?,
                    () = self.reconnected(connects) => return Err(LeadershipLost::Reconnected),
                };
                if finished.events > 0 {
                    // No later batch contains an event that was skipped.
                    (cursor.overlap, skip) = (None, Skipped::default());
                }
                (cursor.done, cursor.target) = (target, None);
                cursor.last_sequence = finished.sequence.cast_signed();
                end = StreamEnd::at(finished.sequence);
                idle.over();
            }
            if let Some(next) = session.committed_since(&cursor.done).await? {
                // The batch begins after this sequence, so older messages are never searched for it.
                cursor.last_sequence = end.sequence.cast_signed();
                let fixed = session.fix_target(&next, cursor.last_sequence).await?;
                let fixed = fixed.ok_or(LeadershipLost::Fenced)?;
                (cursor.batch, cursor.batch_id, noetl_publishes) =
                    (fixed.number, Some(fixed.id), fixed.noetl_publishes);
                (cursor.done, cursor.target, end) =
                    (next.done, Some(next.target), StreamEnd { foreign: end.foreign, ..StreamEnd::at(end.sequence) });
            } else {
                if !works {
                    // A batch removes the error of an earlier leadership. Nothing is left to publish, so none does.
                    tail::clear_error(&self.database, cursor.fence).await?;
                    works = true;
                }
                self.wait(&mut idle).await;
                if check.is_due() {
                    self.check_stream(&publisher, &cursor).await?;
                }
            }
        }
    }

    /// Returns the number of times that the client has connected to the broker.
    fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Waits until the client has reconnected to the broker.
    async fn reconnected(&self, connects: u64) {
        while self.connects() == connects {
            sleep(CONNECTION_CHECK_INTERVAL).await;
        }
    }

    /// Waits for a wake-up, or until it is time to poll again.
    async fn wait(&self, idle: &mut Idle) {
        tokio::select! {
            () = self.local.feed_woken(self.shard) => idle.over(),
            () = self.remote.feed_woken(self.shard) => idle.over(),
            () = sleep(idle.wait()) => {}
        }
    }

    /// Appends the events of the fixed batch that are not in the stream yet, retries if the broker refuses them, and
    /// marks the batch as done.
    async fn finish_batch(
        &self,
        turn: &mut Turn<'_>,
        cursor: &TailCursor,
        target: TxSnapshot,
        mut end: StreamEnd,
    ) -> Result<FinishedBatch, LeadershipLost> {
        let (number, done) = (cursor.batch, cursor.done.clone());
        let discard = cursor.overlap.and_then(discard);
        let (epoch, id) = (cursor.feed_epoch, cursor.batch_id);
        let batch = Batch { epoch, number, id, done, target, owner: cursor.owner, discard };
        let skip = turn.skip;
        let mut distinct = turn.noetl_publishes.then_some(0);
        let (mut reached, mut since, mut refusals) = (0, Instant::now(), 0);
        loop {
            turn.foreign.found(self.shard, end.foreign);
            let BatchProgress { index, behind, gone } = BatchProgress::of(&end, number);
            if index > reached {
                (reached, since, refusals) = (index, Instant::now(), 0);
            }
            let events = turn.session.read_batch(BatchRead {
                done: &batch.done,
                target: &batch.target,
                behind,
                before: behind.map_or(0, |_| index),
                payload_limit: turn.publisher.payload_limit(),
                in_flight: u64::try_from(self.settings.batch).unwrap_or(u64::MAX),
            });
            let events = events.filter(|event| future::ready(!skip.contains(event)));
            let events = events.skip(usize::try_from(gone).unwrap_or(usize::MAX));
            let from = Resume { index, after: end.sequence, distinct };
            match turn.publisher.append(&batch, events, from).await {
                Ok(sequence) => {
                    let appended = sequence - end.sequence;
                    self.complete(turn, number, sequence, index, appended).await?;
                    return Ok(FinishedBatch { sequence, events: index + appended });
                }
                Err(error @ PublishError::OutOfStep) => {
                    tracing::debug!(shard = self.shard, batch = number, after = end.sequence, index, %error, "tries again");
                    metrics::counter!("noetl_tailer_refused_total", "shard" => self.shard.to_string()).increment(1);
                    if since.elapsed() > REFUSED_FOR {
                        return Err(LeadershipLost::Refused { stream: turn.publisher.stream_name() });
                    }
                    sleep(MAX_REFUSED_PAUSE.min(Duration::from_millis(refusals))).await;
                    refusals = 2 * refusals + 1;
                }
                // Earlier messages of this attempt may be duplicates too: not each has an acknowledgement of its own.
                Err(PublishError::Duplicate(sequence)) => {
                    distinct = Some(distinct.map_or(sequence, |first| first.min(sequence)));
                }
                Err(error) => return Err(error.into()),
            }
            if !tail::renew(&self.database, cursor.fence, LEASE.as_secs_f64()).await? {
                return Err(LeadershipLost::Fenced);
            }
            end = self.look_again(turn.publisher, cursor).await?;
        }
    }

    /// Marks a batch as done: `before` of its events were stored earlier, `appended` were appended by this attempt.
    async fn complete(
        &self,
        turn: &mut Turn<'_>,
        batch: i64,
        sequence: u64,
        before: u64,
        appended: u64,
    ) -> Result<(), LeadershipLost> {
        let total = (before + appended).cast_signed();
        let notice = turn.foreign.text();
        if !turn.session.complete(sequence.cast_signed(), total, notice.as_deref()).await? {
            return Err(LeadershipLost::Fenced);
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

/// State of the leader that a turn uses.
struct Turn<'a> {
    publisher: &'a mut Publisher,
    session: &'a mut TailSession,
    foreign: &'a mut ForeignMessages,
    /// Number of the last batch that may hold events that were published before.
    again: i64,
    /// Whether NoETL's tailer may publish the same events, with the same ids.
    noetl_publishes: bool,
    /// Events that another state of the database published.
    skip: &'a Skipped,
}

/// A batch that is in the stream and marked as done.
struct FinishedBatch {
    /// Last sequence of the stream.
    sequence: u64,
    /// Number of its events.
    events: u64,
}

/// Progress of a batch in the stream.
struct BatchProgress {
    /// Index of the next event in the batch.
    index: u64,
    /// Key of the last event that is stored.
    behind: Option<EventKey>,
    /// Number of events that were stored and have expired, so that their keys are unknown.
    gone: u64,
}

impl BatchProgress {
    fn of(end: &StreamEnd, batch: i64) -> Self {
        match &end.last {
            Some(last) if last.mark.batch == batch => {
                Self { index: last.mark.index + 1, behind: Some(last.key), gone: 0 }
            }
            // The expired messages were the batch's own, unless another client publishes too. In that case the batch is
            // published from its start: a duplicate is better than a lost event.
            None if end.foreign.count == 0 => Self { index: end.expired, behind: None, gone: end.expired },
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

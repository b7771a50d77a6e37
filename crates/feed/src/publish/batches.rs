//! Publishing of a shard's committed events by its leader.
//!
//! In each turn the leader finds the committed events, fixes the batch in the cursor row, appends it to the stream, and
//! marks it as done. After a takeover, and after any failure, the stream's last message shows how much of the fixed batch
//! is stored, and the leader appends the rest.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, future};
use tokio::time::{Instant, sleep};

use crate::publish::error::PublishError;
use crate::publish::idle::Idle;
use crate::publish::notice::ForeignMessages;
use crate::publish::overlap::Skipped;
use crate::publish::publisher::{Publisher, Resume, StreamEnd};
use crate::publish::tailer::{LEASE, LeadershipLost, REFUSED_FOR, Tailer};
use crate::wire::streams;
use noetl_domain::event::EventKey;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_storage::tail::{self, TailCursor};
use noetl_storage::tail_pages::BatchRead;
use noetl_storage::tail_session::TailSession;

/// Longest pause before a refused publish is tried again. The first attempt follows at once.
const MAX_REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// Interval of the checks of the stream while no events come. While a leader publishes, acknowledgements show a loss.
const STREAM_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which the connection to the broker is checked.
const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Tailer {
    /// Publishes until this replica must stop being the leader.
    pub(super) async fn publish(&self, cursor: TailCursor) -> Result<std::convert::Infallible, LeadershipLost> {
        let mut session = TailSession::open(Arc::clone(&self.database), cursor.fence).await?;
        let settings = self.settings;
        let (client, names) = (self.client.clone(), self.names.clone());
        let feed = cursor.owner.feed;
        let mut publisher = Publisher::open(client, self.shard, feed, names, settings.stream, settings.batch).await?;
        let mut connects = streams::connects(&self.client);
        let epoch = cursor.feed_epoch;
        let (mut cursor, mut end) = self.recover(&publisher, cursor).await?;
        let mut skip = Skipped::read(&publisher, cursor.overlap).await?;
        metrics::counter!("noetl_tailer_takeovers_total", "shard" => self.shard.to_string()).increment(1);
        // After a rewind, only the batch gone back to and the next one can hold events that were published before.
        let again = if cursor.feed_epoch > epoch { cursor.batch + 1 } else { 0 };
        let (mut idle, mut foreign) = (Idle::new(settings.poll), ForeignMessages::new(publisher.stream_name()));
        let (mut checked, mut works) = (Instant::now(), false);
        let mut noetl_publishes = session.noetl_publishes().await?;
        loop {
            // After a reconnect the broker may have lost data, so the stream is checked even if nothing was committed.
            let seen = streams::connects(&self.client);
            if seen != connects {
                (connects, end) = (seen, self.own_end(&publisher, &cursor).await?);
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
                    finished = self.finish_batch(&mut turn, &cursor, &target, end) => finished?,
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
                    tail::note_error(&self.database, cursor.fence, None).await?;
                    works = true;
                }
                self.wait(&mut idle).await;
                if checked.elapsed() >= STREAM_CHECK_INTERVAL {
                    checked = Instant::now();
                    self.check_stream(&publisher, &cursor).await?;
                }
            }
        }
    }

    /// Waits until the client has reconnected to the broker.
    async fn reconnected(&self, connects: u64) {
        while streams::connects(&self.client) == connects {
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
        target: &TxSnapshot,
        mut end: StreamEnd,
    ) -> Result<FinishedBatch, LeadershipLost> {
        let (number, skip) = (cursor.batch, turn.skip);
        let mut distinct = turn.noetl_publishes.then_some(0);
        let (mut reached, mut since, mut pause) = (0, Instant::now(), Duration::ZERO);
        loop {
            turn.foreign.found(self.shard, end.foreign);
            let BatchProgress { index, behind, gone } = BatchProgress::of(&end, number);
            if index > reached {
                (reached, since, pause) = (index, Instant::now(), Duration::ZERO);
            }
            let events = turn.session.read_batch(BatchRead {
                done: &cursor.done,
                target,
                behind,
                before: behind.map_or(0, |_| index),
                payload_limit: turn.publisher.payload_limit(),
                in_flight: u64::try_from(self.settings.batch).unwrap_or(u64::MAX),
            });
            let events = events.filter(|event| future::ready(!skip.contains(event)));
            let events = events.skip(usize::try_from(gone).unwrap_or(usize::MAX));
            let from = Resume { index, after: end.sequence, distinct };
            match turn.publisher.append(cursor, events, from).await {
                Ok(sequence) => {
                    let appended = sequence - end.sequence;
                    self.complete(turn, number, sequence, index, appended).await?;
                    return Ok(FinishedBatch { sequence, events: index + appended });
                }
                Err(error @ PublishError::OutOfStep) => {
                    tracing::debug!(shard = self.shard, batch = number, after = end.sequence, index, %error, "tries again");
                    metrics::counter!("noetl_tailer_refused_total", "shard" => self.shard.to_string()).increment(1);
                    sleep(pause).await;
                    pause = MAX_REFUSED_PAUSE.min(2 * pause + Duration::from_millis(1));
                }
                // Earlier messages of this attempt may be duplicates too: not each has an acknowledgement of its own.
                Err(PublishError::Duplicate(sequence)) => {
                    distinct = Some(distinct.map_or(sequence, |first| first.min(sequence)));
                }
                Err(error) => return Err(error.into()),
            }
            if since.elapsed() > REFUSED_FOR {
                return Err(LeadershipLost::Refused { stream: turn.publisher.stream_name() });
            }
            if !tail::renew(&self.database, cursor.fence, LEASE.as_secs_f64()).await? {
                return Err(LeadershipLost::Fenced);
            }
            end = self.own_end(turn.publisher, cursor).await?;
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

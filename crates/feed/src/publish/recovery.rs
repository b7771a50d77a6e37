//! Recovery of a leader: it finds how much of the current batch the stream holds, and checks that stream and database
//! still have the same history.
//!
//! Three faults break that history.
//!
//! - The broker lost acknowledged messages, or the stream was deleted and created again. The leader goes back to the
//!   batch of the last message that is left.
//! - The database went back in time, or a standby was promoted, so the stream holds messages that the cursor does not
//!   know. If the database has all their events, as after a planned switchover, the leader continues after them.
//!   Otherwise readers are told from which message on they must discard what they received, and the events of the
//!   database that they lack then are published.
//! - The database was restored from a dump, so transaction ids start over. The leader first gives the rows new
//!   transaction ids.
//!
//! If another copy of the database published meanwhile and told readers to discard messages of this one, their events are
//! published again.
//!
//! If readers must discard or may receive an event again, the feed's epoch is raised, so it never decreases along a
//! stream.

use std::time::Duration;

use chrono::TimeDelta;
use futures::TryStreamExt;
use tokio::time::sleep;

use crate::publish::error::{PublishError, StandBack};
use crate::publish::leader::Leader;
use crate::publish::publisher::{Publisher, Stored, StreamEnd, discard};
use crate::publish::tailer::{LeadershipLost, Tailer};
use noetl_domain::event::EventKey;
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_runtime::clock;
use noetl_storage::tail::{self, History, Overlap, TailCursor};
use noetl_storage::tail_overlap::{self, PublishedEvent};
use noetl_storage::tail_restore;

/// Delay before a second check confirms that the broker lost messages.
const CONFIRM_LOSS_AFTER: Duration = Duration::from_secs(1);
/// Number of messages at the end of the stream that are searched for an earlier feed's last message.
const SEARCH_LIMIT: u64 = 10_000;
/// Maximum number of messages after the cursor's position that are compared with the database. If there are more, the
/// events after that position are published again.
pub(super) const MAX_COMPARED: u64 = 100_000;
/// Number of messages that are compared in one statement.
pub(super) const COMPARED_AT_ONCE: usize = 1_000;
/// Time after its last message for which a promoted server counts as running, even if none of its leaders answers.
const RIVAL_SILENCE: TimeDelta = TimeDelta::seconds(60);

/// Part that lost events or went back in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LostBy {
    Broker,
    Database,
}

impl LostBy {
    /// Returns the name in metrics.
    const fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Database => "database",
        }
    }
}

impl Tailer {
    /// Makes the cursor and the stream's end consistent and returns both.
    pub(super) async fn recover(
        &self,
        publisher: &Publisher,
        mut cursor: TailCursor,
    ) -> Result<(TailCursor, StreamEnd), LeadershipLost> {
        if cursor.history == History::Other {
            cursor = self.renumber(publisher, cursor).await?;
        }
        if cursor.batch == 0 {
            cursor = self.first_batch(publisher, cursor).await?;
        }
        if self.lost_stream(publisher, &mut cursor).await? {
            cursor = self.rewind(publisher, cursor).await?;
        }
        let end = match self.end(publisher, &cursor).await {
            Err(LeadershipLost::BrokerLost) => {
                cursor = self.rewind(publisher, cursor).await?;
                self.end(publisher, &cursor).await?
            }
            end => end?,
        };
        if cursor.history == History::Same && is_explained(&end, &cursor) {
            return Ok((cursor, end));
        }
        cursor = self.adopt(publisher, cursor, &end).await?;
        let end = self.end(publisher, &cursor).await?;
        Ok((cursor, end))
    }

    /// Gives the events of a restored dump transaction ids of this server. Returns the cursor with snapshots that fit
    /// them. If the broker has lost messages too, the cursor is at the beginning of the feed and of the stream, so that
    /// what the stream lacks is published again.
    async fn renumber(&self, publisher: &Publisher, mut cursor: TailCursor) -> Result<TailCursor, LeadershipLost> {
        let rows = tail_restore::renumber(&self.database, &cursor).await?;
        tracing::warn!(shard = self.shard, rows, "gave the events of a restored database new transaction ids");
        let lost = self.lost_stream(publisher, &mut cursor).await? || self.lost_messages(publisher, &cursor).await?;
        let (origin, done) = tail_restore::numbered();
        if lost {
            self.last_left(publisher).await?;
            tracing::error!(shard = self.shard, recorded = cursor.last_sequence, "the broker lost acknowledged events");
            let done = origin.clone();
            return Ok(TailCursor { origin, done, target: None, last_sequence: 0, overlap: None, ..cursor });
        }
        // The batches of the old server can't be read again.
        Ok(TailCursor { origin, done, target: None, ..cursor })
    }

    /// Checks the stream of a feed that has published nothing. Fails if the stream belongs to another feed.
    async fn first_batch(&self, publisher: &Publisher, mut cursor: TailCursor) -> Result<TailCursor, LeadershipLost> {
        let end = publisher.sequence().await?;
        let (last, foreign) = publisher.last_stored(end.saturating_sub(SEARCH_LIMIT).max(1), end).await?;
        match (last, foreign.owner) {
            // The database was restored to a state before its first batch.
            (Some(_), _) => Ok(cursor),
            (None, Some(owner)) => Err(StandBack::OtherFeed { stream: publisher.stream_name(), owner }.into()),
            (None, None) => {
                // No tailer has published yet, so all messages in the stream are foreign.
                cursor.last_sequence = end.cast_signed();
                Ok(cursor)
            }
        }
    }

    /// Returns the end of the stream as [`Self::end`] does. Fails if the stream holds messages of another state of the
    /// database, such as those of a promoted standby.
    pub(super) async fn own_end(
        &self,
        publisher: &Publisher,
        cursor: &TailCursor,
    ) -> Result<StreamEnd, LeadershipLost> {
        let end = self.end(publisher, cursor).await?;
        if is_explained(&end, cursor) { Ok(end) } else { Err(LeadershipLost::Overtaken) }
    }

    /// Returns the end of the stream. Fails if it is below the last sequence in the cursor: the broker lost messages.
    pub(super) async fn end(&self, publisher: &Publisher, cursor: &TailCursor) -> Result<StreamEnd, LeadershipLost> {
        let floor = cursor.last_sequence.cast_unsigned();
        let mut end = publisher.end(floor).await?;
        if end.sequence < floor {
            // A server that just became the leader of a replicated stream may respond before it has read all of it.
            sleep(CONFIRM_LOSS_AFTER).await;
            publisher.settle().await?;
            end = publisher.end(floor).await?;
        }
        if end.sequence < floor { Err(LeadershipLost::BrokerLost) } else { Ok(end) }
    }

    /// Returns whether the stream ends before the last sequence in the cursor.
    async fn lost_messages(&self, publisher: &Publisher, cursor: &TailCursor) -> Result<bool, LeadershipLost> {
        match self.end(publisher, cursor).await {
            Err(LeadershipLost::BrokerLost) => Ok(true),
            end => end.map(|_| false),
        }
    }

    /// Continues after the messages that another state of the database published after the cursor's position. Those
    /// whose events this database has are not published again, unless a message tells readers to discard them. If it lacks
    /// one of the events, if one must be published again, or if it is a restored dump, a new epoch begins.
    async fn adopt(
        &self,
        publisher: &Publisher,
        mut cursor: TailCursor,
        end: &StreamEnd,
    ) -> Result<TailCursor, LeadershipLost> {
        let (mut lost, mut again) = (None, Vec::new());
        if let Some(last) = &end.last {
            check_rival(publisher, &cursor, last)?;
            let mut from = cursor.overlap.map_or(cursor.last_sequence + 1, |overlap| overlap.from);
            lost = self.first_unknown(publisher, &cursor, from.cast_unsigned(), end.sequence).await?;
            if let Some(first) = first_discarded(publisher, from.cast_unsigned(), end.sequence).await? {
                let discarded = publisher.stored(first, (from - 1).cast_unsigned());
                again = discarded.map_ok(|stored| stored.key).try_collect().await?;
                (from, lost) = (first.cast_signed(), Some(first));
            }
            // What readers were to discard stays so, if yet another message came before they were told.
            let before = cursor.overlap.and_then(discard).map(|discard| discard.from);
            lost = lost.into_iter().chain(before).min();
            let discard_from = lost.unwrap_or(end.sequence + 1).cast_signed();
            cursor.overlap = Some(Overlap { from, discard_from, discard_to: end.sequence.cast_signed() });
            cursor.target = None;
            cursor.batch = cursor.batch.max(last.mark.batch);
            cursor.feed_epoch = cursor.feed_epoch.max(last.mark.epoch);
            cursor.last_sequence = end.sequence.cast_signed();
        }
        if lost.is_none() && cursor.history != History::Other {
            tracing::warn!(
                shard = self.shard,
                timeline = cursor.owner.timeline,
                epoch = cursor.feed_epoch,
                "the database was promoted or went back in time, and has every published event; publishing continues"
            );
            return self.store(TailCursor { history: History::Same, ..cursor }, true, &again).await;
        }
        cursor.feed_epoch += 1;
        tracing::error!(
            shard = self.shard,
            history = ?cursor.history,
            epoch = cursor.feed_epoch,
            discard_from = lost,
            "the database was restored or failed over and lacks published events; publishing in a new epoch"
        );
        self.go_to(TailCursor { history: History::Same, ..cursor }, LostBy::Database, &again).await
    }

    /// Returns the first sequence of a range whose event the database does not have. A range that is too long to be
    /// compared counts as unknown from its beginning.
    async fn first_unknown(
        &self,
        publisher: &Publisher,
        cursor: &TailCursor,
        first: u64,
        last: u64,
    ) -> Result<Option<u64>, LeadershipLost> {
        if last.saturating_sub(first) >= MAX_COMPARED {
            return Ok(Some(first));
        }
        // A dump has the transaction ids of the old server, or those that they were changed to.
        let same_ids = cursor.history != History::Other;
        let mut chunks = std::pin::pin!(publisher.stored(first, last).try_chunks(COMPARED_AT_ONCE));
        while let Some(chunk) = chunks.try_next().await.map_err(|failed| failed.1)? {
            let named = |stored: &Stored| PublishedEvent { key: stored.key, tx_id: stored.tx_id.filter(|_| same_ids) };
            let events: Vec<PublishedEvent> = chunk.iter().map(named).collect();
            if let Some(missing) = tail_overlap::missing(&self.database, &events).await?.first() {
                return Ok(chunk.get(*missing).map(|stored| stored.sequence));
            }
        }
        Ok(None)
    }

    /// Goes back after the broker lost acknowledged messages, and starts a new epoch. Continues with the batch of the
    /// stream's last message, or, if none is left, with the beginning of the feed.
    async fn rewind(&self, publisher: &Publisher, cursor: TailCursor) -> Result<TailCursor, LeadershipLost> {
        let ((end, last), recorded) = (self.last_left(publisher).await?, cursor.last_sequence);
        let epoch = last.as_ref().map_or(0, |last| last.mark.epoch).max(cursor.feed_epoch) + 1;
        let mut back = TailCursor {
            done: cursor.origin.clone(),
            target: None,
            last_sequence: end.cast_signed(),
            feed_epoch: epoch,
            overlap: None,
            ..cursor
        };
        if let Some((first, (done, target))) = with_span(publisher, last).await? {
            (back.done, back.target) = (done, Some(target));
            (back.batch, back.batch_id) = (first.mark.batch, first.mark.id);
            back.last_sequence = first.sequence.saturating_sub(1).cast_signed();
        }
        tracing::error!(
            shard = self.shard,
            lost_after = end,
            recorded,
            epoch,
            "the broker lost acknowledged events; publishing them again"
        );
        self.go_to(back, LostBy::Broker, &[]).await
    }

    /// Returns the end of the stream and the last message of this feed. Fails if the stream belongs to another feed.
    async fn last_left(&self, publisher: &Publisher) -> Result<(u64, Option<Stored>), LeadershipLost> {
        let end = publisher.sequence().await?;
        let (last, foreign) = publisher.last_stored(1, end).await?;
        match (last, foreign.owner) {
            (None, Some(owner)) => Err(StandBack::OtherFeed { stream: publisher.stream_name(), owner }.into()),
            (last, _) => Ok((end, last)),
        }
    }

    async fn go_to(
        &self,
        cursor: TailCursor,
        lost_by: LostBy,
        again: &[EventKey],
    ) -> Result<TailCursor, LeadershipLost> {
        let shard = self.shard.to_string();
        metrics::counter!("noetl_tailer_rewinds_total", "shard" => shard, "because" => lost_by.name()).increment(1);
        self.store(cursor, lost_by == LostBy::Database, again).await
    }

    /// Stores a cursor. The events in `again` are published again.
    async fn store(
        &self,
        cursor: TailCursor,
        restored: bool,
        again: &[EventKey],
    ) -> Result<TailCursor, LeadershipLost> {
        let stored = tail::rewind(&self.database, &cursor, restored, again).await?;
        if stored { Ok(cursor) } else { Err(LeadershipLost::Fenced) }
    }
}

/// Returns true if a tailer with this cursor published the stream's last message: it is a message of the batch that is
/// being published.
fn is_explained(end: &StreamEnd, cursor: &TailCursor) -> bool {
    end.last.as_ref().is_none_or(|Stored { mark, .. }| {
        cursor.target.is_some()
            && mark.epoch <= cursor.feed_epoch
            && mark.batch <= cursor.batch
            && mark.owner == cursor.owner
            && mark.id == cursor.batch_id
    })
}

/// Returns the first sequence before a range that a message of the range tells readers to discard; `None`: they discard only
/// messages of the range. Another copy of the database that began earlier tells them so about messages of this one.
async fn first_discarded(publisher: &Publisher, first: u64, last: u64) -> Result<Option<u64>, PublishError> {
    let mut stored = std::pin::pin!(publisher.stored(first, last));
    let mut lowest = first;
    while let Some(Stored { mark, .. }) = stored.try_next().await? {
        lowest = mark.discard.map_or(lowest, |discard| lowest.min(discard.from));
    }
    Ok((lowest < first).then_some(lowest))
}

/// Fails if the stream's last message is from a server that was promoted from a standby of this one, and that may still
/// be running.
fn check_rival(publisher: &Publisher, cursor: &TailCursor, last: &Stored) -> Result<(), StandBack> {
    let promoted = Some(last.mark.owner).filter(|owner| owner.replaces(&cursor.owner));
    match promoted {
        Some(other) if clock::now() - last.time < RIVAL_SILENCE => {
            let this = Leader::of(cursor);
            Err(StandBack::Rival { stream: publisher.stream_name(), other: Leader { owner: other, ..this }, this })
        }
        _ => Ok(()),
    }
}

/// Returns the last message at or before `at` that carries the span of its batch, and this span. Foreign messages may
/// lie between the messages of a batch.
async fn with_span(
    publisher: &Publisher,
    mut at: Option<Stored>,
) -> Result<Option<(Stored, (TxSnapshot, TxSnapshot))>, PublishError> {
    while let Some(stored) = at {
        if let Some(span) = stored.mark.span.clone() {
            return Ok(Some((stored, span)));
        }
        let before = stored.sequence.saturating_sub(stored.mark.index.max(1));
        at = publisher.last_stored(1, before).await?.0;
    }
    Ok(None)
}

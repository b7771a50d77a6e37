//! Recovery of a leader: it finds how much of the current batch the stream holds, and checks that stream and database
//! still have the same history.
//!
//! Three faults break that history. Each raises the feed's epoch, so the epoch never decreases along a stream.
//!
//! - The broker lost acknowledged messages, or the stream was deleted and created again. The leader goes back to the batch of the last message that is left.
//! - The database went back in time, or failed over to a standby, so the stream holds batches that the cursor does not
//!   know. The leader publishes the events after the cursor's position again.
//! - The database was restored from a dump, so transaction ids start over. The leader first gives the rows new
//!   transaction ids.

use std::time::Duration;

use tokio::time::sleep;

use crate::feed::publish::error::PublishError;
use crate::feed::publish::publisher::{Publisher, Stored, StreamEnd};
use crate::feed::publish::tailer::{LeadershipLost, Tailer};
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_storage::tail::{self, History, TailCursor};
use noetl_storage::tail_restore;

/// Delay before a second check confirms that the broker lost messages.
const CONFIRM_LOSS_AFTER: Duration = Duration::from_secs(1);
/// Number of messages at the end of the stream that are searched for an earlier feed's last message.
const SEARCH_LIMIT: u64 = 10_000;

impl Tailer {
    /// Makes the cursor and the stream's end consistent and returns both.
    pub(super) async fn recover(
        &self,
        publisher: &Publisher,
        mut cursor: TailCursor,
    ) -> Result<(TailCursor, StreamEnd), LeadershipLost> {
        if cursor.batch == 0 || cursor.history != History::Same {
            let end = publisher.sequence().await?;
            let (last, _) = publisher.last_stored(end.saturating_sub(SEARCH_LIMIT).max(1), end).await?;
            if cursor.batch == 0 && cursor.history == History::Same && last.is_none() {
                // No tailer has published yet, so all messages in the stream are foreign.
                cursor.last_sequence = end.cast_signed();
            } else {
                cursor = self.begin_epoch(cursor, end, last.as_ref()).await?;
            }
        }
        if self.lost_stream(publisher, &mut cursor).await? {
            cursor = self.rewind(publisher, cursor).await?;
        }
        let end = match self.look(publisher, &cursor).await {
            Err(LeadershipLost::BrokerLost) => {
                cursor = self.rewind(publisher, cursor).await?;
                self.look(publisher, &cursor).await?
            }
            looked => looked?,
        };
        match &end.last {
            Some(last) if is_ahead(last, &cursor) => {
                cursor = self.begin_epoch(cursor, end.sequence, Some(last)).await?;
                let end = self.look(publisher, &cursor).await?;
                Ok((cursor, end))
            }
            _ => Ok((cursor, end)),
        }
    }

    /// Returns the end of the stream. Fails if it is below the last sequence in the cursor: the broker lost messages.
    pub(super) async fn look(&self, publisher: &Publisher, cursor: &TailCursor) -> Result<StreamEnd, LeadershipLost> {
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

    /// Starts a new epoch after the stream's last message, because the stream holds messages from another history of
    /// the database. The events after the cursor's position are published in the new epoch.
    async fn begin_epoch(
        &self,
        mut cursor: TailCursor,
        sequence: u64,
        last: Option<&Stored>,
    ) -> Result<TailCursor, LeadershipLost> {
        if cursor.history == History::Other {
            let rows = tail_restore::renumber(&self.database, &cursor).await?;
            tracing::warn!(shard = self.shard, rows, "gave the events of a restored database new transaction ids");
            (cursor.origin, cursor.done) = tail_restore::numbered();
        }
        let (epoch, batch) = last.map_or((0, 0), |last| (last.mark.epoch, last.mark.batch));
        cursor = TailCursor {
            target: None,
            batch: cursor.batch.max(batch),
            last_sequence: sequence.cast_signed(),
            feed_epoch: cursor.feed_epoch.max(epoch) + 1,
            ..cursor
        };
        tracing::error!(
            shard = self.shard,
            history = ?cursor.history,
            epoch = cursor.feed_epoch,
            "the database was restored or failed over; publishing the events after the cursor's position in a new epoch"
        );
        self.go_to(cursor, "database").await
    }

    /// Goes back after the broker lost acknowledged messages, and starts a new epoch. Continues with the batch of the
    /// stream's last message, or, if none is left, with the beginning of the feed.
    async fn rewind(&self, publisher: &Publisher, cursor: TailCursor) -> Result<TailCursor, LeadershipLost> {
        let (end, recorded) = (publisher.sequence().await?, cursor.last_sequence);
        let (last, _) = publisher.last_stored(1, end).await?;
        let epoch = last.as_ref().map_or(0, |last| last.mark.epoch).max(cursor.feed_epoch) + 1;
        let mut back = TailCursor {
            done: cursor.origin.clone(),
            target: None,
            last_sequence: end.cast_signed(),
            feed_epoch: epoch,
            ..cursor
        };
        if let Some((first, (done, target))) = with_span(publisher, last).await? {
            (back.done, back.target, back.batch) = (done, Some(target), first.mark.batch);
            back.last_sequence = first.sequence.saturating_sub(1).cast_signed();
        }
        tracing::error!(
            shard = self.shard,
            lost_after = end,
            recorded,
            epoch,
            "the broker lost acknowledged events; publishing them again"
        );
        self.go_to(back, "broker").await
    }

    async fn go_to(&self, cursor: TailCursor, lost_by: &'static str) -> Result<TailCursor, LeadershipLost> {
        let shard = self.shard.to_string();
        metrics::counter!("noetl_tailer_rewinds_total", "shard" => shard, "because" => lost_by).increment(1);
        if tail::rewind(&self.database, &cursor).await? { Ok(cursor) } else { Err(LeadershipLost::Fenced) }
    }
}

/// Returns true if the stream holds a message that a tailer with this cursor can't have published: one of a later batch
/// or epoch, or one after a completed batch.
fn is_ahead(last: &Stored, cursor: &TailCursor) -> bool {
    last.mark.epoch > cursor.feed_epoch || last.mark.batch > cursor.batch || cursor.target.is_none()
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

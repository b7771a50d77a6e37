//! Where a leader goes on: what the stream holds of the batch under way, and whether stream and database still belong to
//! one history.
//!
//! Three things break it, and each raises the feed's epoch, which so never goes down along a stream. The broker lost
//! acknowledged messages: back to the batch of the last one that is left. The database went back in time, or went over to
//! a standby: the stream holds batches that the cursor does not know, and what follows the cursor's place is published
//! again. The database was restored from a dump: transaction ids start over, so the rows are numbered anew first.

use std::time::Duration;

use tokio::time::sleep;

use super::publisher::{PublishError, Publisher, Stored, StreamEnd};
use super::tailer::{LeadError, Tailer};
use crate::domain::tx_snapshot::TxSnapshot;
use crate::storage::tail::{self, History, TailCursor};
use crate::storage::tail_restore;

/// How long after a first look a second one confirms that the broker lost messages.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Messages behind which an earlier feed's last message is not looked for.
const LOOK_BACK: u64 = 10_000;

impl Tailer {
    /// The cursor and the stream's end, made to fit each other.
    pub(super) async fn recover(
        &self,
        publisher: &Publisher,
        mut cursor: TailCursor,
    ) -> Result<(TailCursor, StreamEnd), LeadError> {
        if cursor.batch == 0 || cursor.history != History::Same {
            let end = publisher.sequence().await?;
            let (last, _) = publisher.last_stored(end.saturating_sub(LOOK_BACK).max(1), end).await?;
            if cursor.batch == 0 && cursor.history == History::Same && last.is_none() {
                // Nothing of ours can be in the stream yet, whatever others put there.
                cursor.last_sequence = end.cast_signed();
            } else {
                cursor = self.begin_epoch(cursor, end, last.as_ref()).await?;
            }
        }
        let end = match self.look(publisher, &cursor).await {
            Err(LeadError::BrokerLost) => {
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

    /// Where the stream ends, which can't be below what the cursor knows to be in it.
    pub(super) async fn look(&self, publisher: &Publisher, cursor: &TailCursor) -> Result<StreamEnd, LeadError> {
        let floor = cursor.last_sequence.cast_unsigned();
        let mut end = publisher.end(floor).await?;
        if end.sequence < floor {
            // A broker that has just begun to lead a replicated stream may answer before it has read all of it.
            sleep(LOOK_AGAIN).await;
            end = publisher.end(floor).await?;
        }
        if end.sequence < floor { Err(LeadError::BrokerLost) } else { Ok(end) }
    }

    /// The stream holds what another history of the database put there. What follows the cursor's place is published
    /// behind it under a new epoch.
    async fn begin_epoch(
        &self,
        mut cursor: TailCursor,
        sequence: u64,
        last: Option<&Stored>,
    ) -> Result<TailCursor, LeadError> {
        if cursor.history == History::Other {
            let rows = tail_restore::renumber(&self.database, &cursor).await?;
            tracing::warn!(shard = self.shard, rows, "numbered the transactions of a restored database anew");
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
            "the database was restored or failed over; publishing what follows the cursor's place"
        );
        self.go_to(cursor, "database").await
    }

    /// The broker lost messages that it had acknowledged. Goes back to where its stream ends, under a new epoch: to the
    /// batch of its last message, or, if none is left, to the feed's beginning.
    async fn rewind(&self, publisher: &Publisher, cursor: TailCursor) -> Result<TailCursor, LeadError> {
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

    async fn go_to(&self, cursor: TailCursor, lost_by: &'static str) -> Result<TailCursor, LeadError> {
        let shard = self.shard.to_string();
        metrics::counter!("noetl_tailer_rewinds_total", "shard" => shard, "because" => lost_by).increment(1);
        if tail::rewind(&self.database, &cursor).await? { Ok(cursor) } else { Err(LeadError::Fenced) }
    }
}

/// Whether the stream holds a message that the cursor can't have led to: of a later batch or epoch, or behind a batch that
/// was done.
fn is_ahead(last: &Stored, cursor: &TailCursor) -> bool {
    last.mark.epoch > cursor.feed_epoch || last.mark.batch > cursor.batch || cursor.target.is_none()
}

/// The last first message of a batch that says where its batch begins and ends, at or before a message. Foreign messages
/// may stand between a batch's own.
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

//! Checks that the stream is the one that the cursor knows, and that it still holds the published events.

use crate::publish::publisher::Publisher;
use crate::publish::tailer::{LeadershipLost, Tailer};
use noetl_storage::tail::{self, TailCursor};

/// Number of messages at the end of a stream that are searched for the feed's last message.
const SEARCH_LIMIT: u64 = 1_000;

impl Tailer {
    /// Fails if the stream was deleted, created again, or has lost messages. A broker that does not respond is no loss.
    pub(super) async fn check_stream(&self, publisher: &Publisher, cursor: &TailCursor) -> Result<(), LeadershipLost> {
        let floor = cursor.last_sequence.cast_unsigned();
        match publisher.probe().await? {
            Some(sequence) if sequence < floor => self.end(publisher, cursor).await.map(drop),
            _ => Ok(()),
        }
    }

    /// Returns true if the stream was created after the cursor's, and does not hold the feed's last events. Otherwise
    /// the stream becomes that of the cursor.
    pub(super) async fn lost_stream(
        &self,
        publisher: &Publisher,
        cursor: &mut TailCursor,
    ) -> Result<bool, LeadershipLost> {
        let created = publisher.created();
        if cursor.stream_created == Some(created) {
            return Ok(false);
        }
        let known = cursor.stream_created.replace(created).is_some();
        if known && cursor.batch > 0 && !holds_end(publisher, cursor).await? {
            return Ok(true);
        }
        if tail::bind_stream(&self.database, cursor.fence, created).await? {
            Ok(false)
        } else {
            Err(LeadershipLost::Fenced)
        }
    }
}

/// Returns true if the last messages of the stream contain one of the cursor's latest batches.
async fn holds_end(publisher: &Publisher, cursor: &TailCursor) -> Result<bool, LeadershipLost> {
    let end = publisher.sequence().await?;
    let (last, _) = publisher.last_stored(end.saturating_sub(SEARCH_LIMIT).max(1), end).await?;
    Ok(last.is_some_and(|last| last.mark.epoch == cursor.feed_epoch && last.mark.batch + 1 >= cursor.batch))
}

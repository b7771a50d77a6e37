//! Cursors that can't exist in a feed: those of another feed, of a later epoch, or after the stream's last message. Such a
//! cursor is of a deployment that was wiped, restored, or never this one. Its reader starts again with the first event.
//!
//! A cursor from another replica may be ahead of this replica's hub, and after a loss at the broker a cursor is after the
//! stream's end until the tailer begins a new epoch. So the stream and the shard decide, and they decide twice.

use std::time::Duration;

use tokio::time::sleep;

use crate::read::error::ReadError;
use crate::read::gap::Gap;
use crate::read::hub::Hub;
use crate::wire::cursor::Position;
use noetl_domain::feed::{FeedId, FeedTag};
use noetl_domain::shard::ShardIndex;
use noetl_storage::tail::{self, FeedHead};

/// Delay before a second check. A server that just became the leader of a replicated stream may respond before it has
/// read all of it.
const CONFIRM_AFTER: Duration = Duration::from_secs(1);

/// Returns the start position of a reader with this cursor: its own, or the beginning with a gap. `head` is the position
/// of the hub.
pub(super) async fn check(
    hub: &Hub,
    shard: ShardIndex,
    at: Position,
    feed: Option<FeedTag>,
    head: Position,
) -> Result<(Position, Option<Gap>), ReadError> {
    let reset = || Ok((Position::default(), Some(Gap::reset(at))));
    if let (Some(feed), Some(here)) = (feed, hub.identity(shard).map(FeedId::tag))
        && feed != here
    {
        return reset();
    }
    if at <= head || is_possible(hub, shard, at).await? {
        return Ok((at, None));
    }
    sleep(CONFIRM_AFTER).await;
    if is_possible(hub, shard, at).await? { Ok((at, None)) } else { reset() }
}

/// Asks the shard, and if it does not know the position, the stream. Fails if the answer may change soon. While the
/// broker does not answer, most cursors are found possible, because the shard knows the last completed batch.
async fn is_possible(hub: &Hub, shard: ShardIndex, at: Position) -> Result<bool, ReadError> {
    let Some(database) = hub.databases().shards().get(usize::from(shard)) else { return Ok(true) };
    let feed = tail::head(database).await.map_err(|error| ReadError::of(shard, error));
    if matches!(feed, Ok(feed) if can_exist(at, Position::default(), feed) == Some(true)) {
        return Ok(true);
    }
    let end = hub.stored(shard).end().await?;
    let possible = if at <= end { Some(true) } else { can_exist(at, end, feed?) };
    possible.ok_or_else(|| ReadError::of(shard, "the tailer has not finished the batch at this position"))
}

/// Returns whether the position can exist in a feed with this end of the stream. `None`: unknown until the current batch
/// is completed.
fn can_exist(at: Position, end: Position, feed: Option<FeedHead>) -> Option<bool> {
    // The stream held no event when the position was taken, so it belongs to any epoch.
    if at.epoch == 0 || at <= end {
        return Some(true);
    }
    let epoch = feed.map_or(0, |feed| feed.epoch.cast_unsigned()).max(end.epoch);
    if at.epoch != epoch {
        return Some(at.epoch < epoch);
    }
    match feed {
        Some(feed) if at.sequence <= feed.last_sequence.cast_unsigned() => Some(true),
        Some(feed) if feed.publishing => None,
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(epoch: u32, sequence: u64) -> Position {
        Position { epoch, sequence }
    }

    #[test]
    fn only_positions_of_later_epochs_or_after_the_end_can_t_exist() {
        let feed = |epoch, last_sequence, publishing| {
            Some(FeedHead { feed: FeedId::new(1), epoch, last_sequence, publishing })
        };
        let end = place(2, 50);
        for (at, feed, possible) in [
            (place(2, 50), feed(2, 50, false), Some(true)),
            (place(1, 90), feed(2, 50, false), Some(true)),
            (place(0, 90), feed(2, 50, false), Some(true)),
            (place(2, 51), feed(2, 50, false), Some(false)),
            (place(3, 1), feed(2, 50, false), Some(false)),
            (place(3, 1), None, Some(false)),
            // The broker lost messages, and the tailer has not noticed it, or has not published in the new epoch.
            (place(2, 60), feed(2, 60, false), Some(true)),
            (place(2, 60), feed(3, 50, false), Some(true)),
            (place(2, 60), feed(2, 50, true), None),
            (place(3, 60), feed(3, 50, false), Some(false)),
        ] {
            assert_eq!(can_exist(at, end, feed), possible, "{at:?} {feed:?}");
        }
    }
}

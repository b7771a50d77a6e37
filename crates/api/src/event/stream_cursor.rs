//! Cursors of live events that continue a page of stored events.

use noetl_domain::feed::FeedId;
use noetl_domain::shard::ShardIndex;
use noetl_feed::wire::cursor::{Position, StreamCursor};
use noetl_storage::tail_covered::Covered;

/// Returns the cursor at these positions of the feeds, by shard index. The page has events of these shards, or of all.
/// Without a position of such a shard, there is no cursor. For the other shards, a reader starts at the beginning then.
#[must_use]
pub fn stream_cursor(feeds: &[Option<Covered>], shards: Option<&[ShardIndex]>) -> Option<String> {
    let is_of_page = |index: ShardIndex| shards.is_none_or(|shards| shards.contains(&index));
    if (0..).zip(feeds).any(|(index, covered)| covered.is_none() && is_of_page(index)) {
        return None;
    }
    let position = |covered: &Option<Covered>| covered.as_ref().map(position).unwrap_or_default();
    let tag = |covered: &Covered| FeedId::tag(covered.feed);
    let cursor = StreamCursor {
        positions: feeds.iter().map(position).collect(),
        feeds: feeds.iter().map(|covered| covered.as_ref().map(tag)).collect(),
    };
    Some(cursor.to_text())
}

fn position(covered: &Covered) -> Position {
    Position { epoch: covered.epoch.unsigned_abs(), sequence: covered.last_sequence.unsigned_abs() }
}

//! Position of a shard's feed together with the transactions whose events are before it.

use super::error::StorageError;
use super::pools::Database;
use super::tail::parse;
use noetl_domain::feed::FeedId;
use noetl_domain::tx_snapshot::TxSnapshot;

/// Position of a feed, and what is before it. A reader that starts after the position receives the events of exactly the
/// transactions that `done` does not see, unless a new epoch begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    /// Identity of the feed.
    pub feed: FeedId,
    /// Epoch of the feed.
    pub epoch: i32,
    /// Sequence of the stream at which the next batch begins.
    pub last_sequence: i64,
    /// Snapshot that sees the transactions whose events are published, or were committed before the feed began.
    pub done: TxSnapshot,
}

/// Returns the position of a shard's feed. `Ok(None)`: the feed never began.
#[tracing::instrument(level = "debug", name = "sql.tail.covered", skip_all, fields(database = %shard.name()))]
pub async fn read(shard: &Database) -> Result<Option<Covered>, StorageError> {
    let cursor =
        sqlx::query!(r#"SELECT feed_id, feed_epoch, last_sequence, done::text AS "done!" FROM noetl.tail_cursor"#);
    let Some(row) = shard.run(cursor.fetch_optional(shard.planned_once())).await? else { return Ok(None) };
    Ok(Some(Covered {
        feed: FeedId::new(row.feed_id.as_u128()),
        epoch: row.feed_epoch,
        last_sequence: row.last_sequence,
        done: parse(shard, &row.done)?,
    }))
}

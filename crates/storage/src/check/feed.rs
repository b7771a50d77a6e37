//! Cursor of a shard's feed, as the comparison with the stream reads it: without the lease, and without a change.

use crate::error::StorageError;
use crate::pools::Database;
use crate::tail::History;
use crate::tail_upgrade;
use noetl_domain::feed::FeedId;

/// Position of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedPosition {
    /// Identity of the feed.
    pub feed: FeedId,
    /// Last sequence of the stream when the last batch was completed.
    pub last_sequence: i64,
    /// Creation time of the stream in nanoseconds since 1970; `None` until a leader has stored it.
    pub stream_created: Option<i64>,
    /// Relation of the database to the one in which the cursor was written.
    pub history: History,
}

/// Returns the position of a shard's feed. `Ok(None)`: the feed never began.
#[tracing::instrument(level = "debug", name = "sql.check.feed", skip_all, fields(database = %shard.name()))]
pub async fn position(shard: &Database) -> Result<Option<FeedPosition>, StorageError> {
    let row = sqlx::query!(
        r#"SELECT feed_id, last_sequence, stream_created,
                  control.system_identifier <> cursor.system_identifier AS "moved!",
                  pg_snapshot_xmax(done) > pg_snapshot_xmax(pg_current_snapshot()) AS "ahead!",
                  ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer <> cursor.timeline
                      AS "continued!"
           FROM noetl.tail_cursor AS cursor, pg_control_system() AS control"#
    );
    let Some(row) = shard.run(row.fetch_optional(shard.pool())).await? else { return Ok(None) };
    // The leader will recognize it in the same way.
    let upgraded = row.moved && !row.ahead && tail_upgrade::is_upgraded(shard).await?;
    Ok(Some(FeedPosition {
        feed: FeedId::new(row.feed_id.as_u128()),
        last_sequence: row.last_sequence,
        stream_created: row.stream_created,
        history: History::of(upgraded, row.moved || row.ahead, row.continued),
    }))
}

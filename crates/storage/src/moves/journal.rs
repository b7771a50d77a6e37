//! Journal of the moves (cluster database): one row for each move of a bucket. The row is changed before the action that
//! its state permits.

use uuid::Uuid;

use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::shard::{Barrier, ShardIndex};

/// State of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveState {
    /// Rows are copied while the source is written.
    Copying,
    /// The source's writers are refused.
    Fenced,
    /// The map names the target. The fences have to be settled.
    Switched,
    /// The move is complete. The source still has rows of the bucket.
    Settled,
    /// The source's rows are deleted.
    Cleaned,
}

impl MoveState {
    fn stored(text: &str) -> Self {
        match text {
            "fenced" => Self::Fenced,
            "switched" => Self::Switched,
            "settled" => Self::Settled,
            "cleaned" => Self::Cleaned,
            _ => Self::Copying,
        }
    }
}

/// A move of one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Id of the move.
    pub id: i64,
    /// Bucket.
    pub bucket: u16,
    /// Shard that the bucket leaves.
    pub source: ShardIndex,
    /// Shard that gets the bucket.
    pub target: ShardIndex,
    /// State.
    pub state: MoveState,
    /// Number of the last fence. It is larger than those of all earlier moves of the bucket.
    pub attempt: i64,
}

struct Row {
    move_id: i64,
    bucket: i16,
    source: i16,
    target: i16,
    state: String,
    attempt: i64,
}

impl From<Row> for Move {
    fn from(row: Row) -> Self {
        Self {
            id: row.move_id,
            bucket: row.bucket.cast_unsigned(),
            source: row.source.cast_unsigned(),
            target: row.target.cast_unsigned(),
            state: MoveState::stored(&row.state),
            attempt: row.attempt,
        }
    }
}

fn ids(moves: &[Move]) -> Vec<i64> {
    moves.iter().map(|one| one.id).collect()
}

/// Returns the moves that are not settled, by bucket.
pub async fn open(cluster: &Database) -> Result<Vec<Move>, StorageError> {
    let rows = sqlx::query_as!(
        Row,
        "SELECT move_id, bucket, source, target, state, attempt FROM noetl.bucket_move
         WHERE state IN ('copying', 'fenced', 'switched') ORDER BY bucket"
    );
    let rows = cluster.run(rows.fetch_all(cluster.pool())).await?;
    Ok(rows.into_iter().map(Move::from).collect())
}

/// Returns the stored rows of moves, in any state. Moves that were aborted have none.
pub async fn stored(cluster: &Database, moves: &[Move]) -> Result<Vec<Move>, StorageError> {
    let rows = sqlx::query_as!(
        Row,
        "SELECT move_id, bucket, source, target, state, attempt FROM noetl.bucket_move
         WHERE move_id = ANY($1) ORDER BY bucket",
        &ids(moves),
    );
    let rows = cluster.run(rows.fetch_all(cluster.leases())).await?;
    Ok(rows.into_iter().map(Move::from).collect())
}

/// Returns whether a move to this shard is fenced, so that it may be switched at any time.
pub async fn is_fenced(cluster: &Database, target: ShardIndex) -> Result<bool, StorageError> {
    let fenced = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM noetl.bucket_move WHERE state = 'fenced' AND target = $1) AS "fenced!""#,
        target.cast_signed(),
    );
    cluster.run(fenced.fetch_one(cluster.pool())).await
}

/// Returns the moves that are not settled and were last changed more than `seconds` ago: their command has ended.
pub async fn abandoned(cluster: &Database, seconds: f64) -> Result<Vec<Move>, StorageError> {
    let rows = sqlx::query_as!(
        Row,
        "SELECT move_id, bucket, source, target, state, attempt FROM noetl.bucket_move
         WHERE state IN ('copying', 'fenced', 'switched') AND changed_at < now() - make_interval(secs => $1)
         ORDER BY bucket",
        seconds,
    );
    let rows = cluster.run(rows.fetch_all(cluster.leases())).await?;
    Ok(rows.into_iter().map(Move::from).collect())
}

/// Returns the moves that were settled more than `seconds` ago and whose source still has rows of the bucket. The bucket
/// has not returned to the source, and is not being moved.
pub async fn cleanable(cluster: &Database, seconds: f64) -> Result<Vec<Move>, StorageError> {
    let rows = sqlx::query_as!(
        Row,
        "SELECT move_id, bucket, source, target, state, attempt FROM noetl.bucket_move AS settled
         WHERE state = 'settled' AND changed_at < now() - make_interval(secs => $1)
           AND NOT EXISTS (SELECT FROM noetl.bucket_move AS other
                           WHERE other.bucket = settled.bucket AND other.state IN ('copying', 'fenced', 'switched'))
           AND NOT EXISTS (SELECT FROM noetl.shard_bucket
                           WHERE shard_bucket.bucket = settled.bucket AND shard_bucket.shard = settled.source)
         ORDER BY bucket",
        seconds,
    );
    let rows = cluster.run(rows.fetch_all(cluster.leases())).await?;
    Ok(rows.into_iter().map(Move::from).collect())
}

/// Adds moves of these buckets to `target`, from the shards that the map names, and raises the version of the map.
/// Buckets that are on the target, or that are being moved, are skipped. Returns the version.
pub async fn begin(cluster: &Database, buckets: &[u16], target: ShardIndex) -> Result<u64, StorageError> {
    let buckets: Vec<i16> = buckets.iter().map(|bucket| bucket.cast_signed()).collect();
    let insert = sqlx::query_scalar!(
        "WITH begun AS (
             INSERT INTO noetl.bucket_move (bucket, source, target)
             SELECT bucket, shard, $2 FROM noetl.shard_bucket WHERE bucket = ANY($1) AND shard <> $2
             ON CONFLICT (bucket) WHERE state IN ('copying', 'fenced', 'switched') DO NOTHING
             RETURNING 1
         )
         UPDATE noetl.shard_map_version SET version = version + CASE WHEN EXISTS (SELECT FROM begun) THEN 1 ELSE 0 END
         RETURNING version",
        &buckets,
        target.cast_signed(),
    );
    Ok(cluster.run(insert.fetch_one(cluster.pool())).await?.cast_unsigned())
}

/// Raises the attempts of moves, so that their buckets can be fenced. Returns the moves that were being copied.
pub async fn fence(cluster: &Database, moves: &[Move]) -> Result<Vec<Move>, StorageError> {
    let rows = sqlx::query_as!(
        Row,
        "UPDATE noetl.bucket_move
         SET state = 'fenced', attempt = greatest(attempt, move_id * 1000000) + 1, changed_at = now()
         WHERE move_id = ANY($1) AND state = 'copying'
         RETURNING move_id, bucket, source, target, state, attempt",
        &ids(moves),
    );
    let rows = cluster.run(rows.fetch_all(cluster.pool())).await?;
    Ok(rows.into_iter().map(Move::from).collect())
}

/// Returns fenced moves to the copy, unless their attempt is another one or they have switched. Returns the moves that
/// are being copied after it: their fences can be lifted.
pub async fn unfence(cluster: &Database, moves: &[Move]) -> Result<Vec<Move>, StorageError> {
    let attempts: Vec<i64> = moves.iter().map(|one| one.attempt).collect();
    let rows = sqlx::query_as!(
        Row,
        "UPDATE noetl.bucket_move AS moved SET state = 'copying', changed_at = now()
         FROM unnest($1::bigint[], $2::bigint[]) AS given (id, attempt)
         WHERE move_id = given.id AND moved.attempt = given.attempt AND state IN ('copying', 'fenced')
         RETURNING move_id, bucket, source, target, state, moved.attempt",
        &ids(moves),
        &attempts,
    );
    let rows = cluster.run(rows.fetch_all(cluster.leases())).await?;
    Ok(rows.into_iter().map(Move::from).collect())
}

/// Switches the map to the targets of fenced moves, raises its version, and stores the barrier, in one transaction.
/// Returns the version; `Ok(None)`: one of the moves has another attempt or state, and nothing was changed.
pub async fn switch(cluster: &Database, moves: &[Move], barrier: Option<Barrier>) -> Result<Option<u64>, StorageError> {
    let attempts: Vec<i64> = moves.iter().map(|one| one.attempt).collect();
    let work = async {
        let mut tx = cluster.pool().begin().await?;
        let version = sqlx::query_scalar!("UPDATE noetl.shard_map_version SET version = version + 1 RETURNING version");
        let version = version.fetch_one(&mut *tx).await?;
        let switched = sqlx::query!(
            "WITH switched AS (
                 UPDATE noetl.bucket_move AS moved
                 SET state = 'switched', map_version = $3, barrier_feed = $4, barrier_epoch = $5, barrier_sequence = $6,
                     changed_at = now()
                 FROM unnest($1::bigint[], $2::bigint[]) AS given (id, attempt)
                 WHERE move_id = given.id AND moved.attempt = given.attempt AND state = 'fenced'
                 RETURNING moved.bucket, source, target
             )
             UPDATE noetl.shard_bucket SET shard = switched.target
             FROM switched WHERE shard_bucket.bucket = switched.bucket AND shard_bucket.shard = switched.source",
            &ids(moves),
            &attempts,
            version,
            barrier.map(|barrier| Uuid::from_u128(barrier.feed.number())),
            barrier.map(|barrier| barrier.epoch.cast_signed()),
            barrier.map(|barrier| barrier.sequence.cast_signed()),
        );
        let switched = switched.execute(&mut *tx).await?.rows_affected();
        if usize::try_from(switched).ok() != Some(moves.len()) {
            return Ok(None);
        }
        tx.commit().await?;
        Ok(Some(version.cast_unsigned()))
    };
    cluster.run(work).await
}

/// Stores that moves are settled. A shard that got a bucket back hides no rows of it any more, so its earlier moves need no
/// deletion.
pub async fn settle(cluster: &Database, moves: &[Move]) -> Result<(), StorageError> {
    let update = sqlx::query!(
        "WITH settled AS (
             UPDATE noetl.bucket_move SET state = 'settled', changed_at = now()
             WHERE move_id = ANY($1) AND state = 'switched'
             RETURNING move_id, bucket, target
         )
         UPDATE noetl.bucket_move AS earlier SET state = 'cleaned', changed_at = now()
         FROM settled
         WHERE earlier.bucket = settled.bucket AND earlier.source = settled.target
           AND earlier.move_id < settled.move_id AND earlier.state = 'settled'",
        &ids(moves),
    );
    cluster.run(update.execute(cluster.leases())).await?;
    Ok(())
}

/// Stores that the sources of moves have no rows of the buckets, and raises the version of the map.
pub async fn clean(cluster: &Database, moves: &[Move]) -> Result<(), StorageError> {
    let update = sqlx::query!(
        "WITH cleaned AS (
             UPDATE noetl.bucket_move SET state = 'cleaned', changed_at = now()
             WHERE move_id = ANY($1) AND state = 'settled' RETURNING 1
         )
         UPDATE noetl.shard_map_version SET version = version + 1 WHERE EXISTS (SELECT FROM cleaned)",
        &ids(moves),
    );
    cluster.run(update.execute(cluster.leases())).await?;
    Ok(())
}

/// Deletes moves that are being copied, and raises the version of the map. Their targets must have no rows of the
/// buckets. Returns the number of deleted moves.
pub async fn forget(cluster: &Database, moves: &[Move]) -> Result<usize, StorageError> {
    let delete = sqlx::query_scalar!(
        r#"WITH forgotten AS (
               DELETE FROM noetl.bucket_move WHERE move_id = ANY($1) AND state = 'copying' RETURNING 1
           ), raised AS (
               UPDATE noetl.shard_map_version SET version = version + 1 WHERE EXISTS (SELECT FROM forgotten)
           )
           SELECT count(*) AS "count!" FROM forgotten"#,
        &ids(moves),
    );
    let count = cluster.run(delete.fetch_one(cluster.pool())).await?;
    Ok(usize::try_from(count).unwrap_or_default())
}

//! Fences of buckets: a trigger refuses the rows of a bucket on the shard that it leaves, and on a shard to which it is
//! being copied (`noetl.check_bucket_fence`).
//!
//! From the commit of the fence, no statement that begins writes to the bucket. Those that began before may have looked
//! before the commit. Such a statement holds `ROW EXCLUSIVE` on its table since before it looked, until its transaction
//! ends; [`Writers`] are the sessions that hold it, and the mover waits for them. Then the bucket is constant.

use std::time::Duration;

use sqlx::Connection;

use super::journal::Move;
use crate::error::StorageError;
use crate::lock_wait::{self, SHORT_WAIT};
use crate::pools::Database;
use crate::triggers;

/// Time after which a fence that is not sealed has no effect.
pub const FENCE: Duration = Duration::from_secs(3);
/// Attempts to get the locks for the triggers.
const ATTEMPTS: u32 = 30;
/// Tables of a source with triggers.
pub const OF_SOURCE: [&str; 4] = ["event", "execution", "projection_snapshot", "outbox"];
/// Tables of a target with triggers. Programs that do not know the map use the rows of this table.
pub const OF_TARGET: [&str; 1] = ["outbox"];
/// Triggers of each table, and the changes that they refuse.
const FENCED: [(&str, &str, &str); 5] = [
    ("event", "bucket_fence", "INSERT OR UPDATE"),
    ("execution", "bucket_fence", "INSERT OR UPDATE OR DELETE"),
    ("projection_snapshot", "bucket_fence", "INSERT OR UPDATE"),
    ("outbox", "bucket_fence", "INSERT OR UPDATE"),
    ("outbox", "bucket_fence_delete", "DELETE"),
];

/// Creates the triggers on tables of a shard that have none, and enables all for every writer.
#[tracing::instrument(level = "debug", name = "sql.moves.create_triggers", skip_all, fields(database = %shard.name()))]
pub async fn create_triggers(shard: &Database, tables: &[&str]) -> Result<(), StorageError> {
    let work = async {
        let mut connection = shard.connect().await?;
        sqlx::raw_sql(SHORT_WAIT).execute(&mut connection).await?;
        for (table, name, changes) in FENCED.into_iter().filter(|(table, ..)| tables.contains(table)) {
            let exists = sqlx::query_scalar!(
                r#"SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = ('noetl.' || $1::text)::regclass AND tgname = $2)
                       AS "exists!""#,
                table,
                name,
            );
            if exists.fetch_one(&mut connection).await? {
                continue;
            }
            let condition = if changes == "DELETE" { "WHEN (OLD.status <> 'PUBLISHED')" } else { "" };
            let create = format!(
                "CREATE TRIGGER {name} BEFORE {changes} ON noetl.{table} FOR EACH ROW {condition}
                 EXECUTE FUNCTION noetl.check_bucket_fence()"
            );
            lock_wait::run(&mut connection, &create, ATTEMPTS).await?;
        }
        connection.close().await
    };
    work.await.map_err(|error: sqlx::Error| shard.failed(error))?;
    triggers::enable(shard).await.map(drop)
}

/// Fences the buckets of moves on their target, as if they had left it, until [`open_target`]. So no other program, and no
/// replica with an earlier map, takes a copied outbox row. After an abortion, the fences stay. Their attempt is the last
/// one before those of the move.
#[tracing::instrument(level = "debug", name = "sql.moves.close_target", skip_all, fields(database = %target.name()))]
pub async fn close_target(target: &Database, moves: &[Move]) -> Result<(), StorageError> {
    let ids: Vec<i64> = moves.iter().map(|one| one.id).collect();
    let sources: Vec<i16> = moves.iter().map(|one| one.source.cast_signed()).collect();
    let insert = sqlx::query!(
        "INSERT INTO noetl.bucket_fence AS fence (bucket, attempt, sealed, moved_to)
         SELECT bucket, move_id * 1000000, true, source
         FROM unnest($1::smallint[], $2::bigint[], $3::smallint[]) AS given (bucket, move_id, source) ORDER BY bucket
         ON CONFLICT (bucket) DO UPDATE
         SET attempt = excluded.attempt, sealed = true, moved_to = excluded.moved_to
         WHERE fence.moved_to IS NULL AND fence.attempt < excluded.attempt",
        &buckets(moves),
        &ids,
        &sources,
    );
    target.run(insert.execute(target.leases())).await?;
    Ok(())
}

/// Fences the buckets of moves on their source, and returns the sessions that may write to them meanwhile. Waits up to
/// 300 ms for transactions that are not read committed.
#[tracing::instrument(level = "debug", name = "sql.moves.raise_fence", skip_all, fields(database = %source.name()))]
pub async fn raise(source: &Database, moves: &[Move]) -> Result<Writers, StorageError> {
    let (buckets, attempts) = (buckets(moves), attempts(moves));
    let work = async {
        let mut tx = source.leases().begin().await?;
        sqlx::raw_sql("SET LOCAL lock_timeout = '300ms'").execute(&mut *tx).await?;
        // A transaction with an old snapshot holds this row, or fails when it needs the row.
        sqlx::query!("UPDATE noetl.bucket_fence SET attempt = attempt WHERE bucket = -1").execute(&mut *tx).await?;
        let insert = sqlx::query!(
            "INSERT INTO noetl.bucket_fence AS fence (bucket, attempt, until)
             SELECT bucket, attempt, clock_timestamp() + make_interval(secs => $3)
             FROM unnest($1::smallint[], $2::bigint[]) AS given (bucket, attempt) ORDER BY bucket
             ON CONFLICT (bucket) DO UPDATE
             SET attempt = excluded.attempt, until = excluded.until, sealed = false, moved_to = NULL
             WHERE fence.attempt < excluded.attempt",
            &buckets,
            &attempts,
            FENCE.as_secs_f64(),
        );
        insert.execute(&mut *tx).await?;
        tx.commit().await?;
        writers(source).await
    };
    source.run(work).await
}

/// Sessions that hold `ROW EXCLUSIVE` on a table with a trigger, as virtual transaction ids.
#[derive(Debug)]
pub struct Writers(Vec<String>);

impl Writers {
    /// Returns whether one of them has not ended on their shard.
    pub async fn run(&self, shard: &Database) -> Result<bool, StorageError> {
        if self.0.is_empty() {
            return Ok(false);
        }
        let current = shard.run(writers(shard)).await?;
        Ok(current.0.iter().any(|writer| self.0.contains(writer)))
    }
}

async fn writers(shard: &Database) -> sqlx::Result<Writers> {
    let rows = sqlx::query_scalar!(
        r#"SELECT DISTINCT virtualtransaction AS "writer!" FROM pg_locks
           WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
             AND (relation IN (SELECT relid FROM pg_partition_tree('noetl.event'))
                  OR relation IN ('noetl.execution'::regclass, 'noetl.projection_snapshot'::regclass,
                                  'noetl.outbox'::regclass))"#
    );
    Ok(Writers(rows.fetch_all(shard.leases()).await?))
}

/// Seals the fences of moves. `Ok(false)`: the time of one has passed, or it has another attempt; nothing was changed.
///
/// The rows are locked first. A writer that found the time of a fence passed holds a lock on its row until it ends, so
/// the condition is evaluated after that.
#[tracing::instrument(level = "debug", name = "sql.moves.seal", skip_all, fields(database = %source.name()))]
pub async fn seal(source: &Database, moves: &[Move]) -> Result<bool, StorageError> {
    let (buckets, attempts) = (buckets(moves), attempts(moves));
    let work = async {
        let mut tx = source.leases().begin().await?;
        sqlx::raw_sql("SET LOCAL lock_timeout = '300ms'").execute(&mut *tx).await?;
        let lock = sqlx::query!(
            "SELECT bucket FROM noetl.bucket_fence WHERE bucket = ANY($1) ORDER BY bucket FOR UPDATE",
            &buckets,
        );
        lock.fetch_all(&mut *tx).await?;
        let update = sqlx::query!(
            "UPDATE noetl.bucket_fence AS fence SET sealed = true
             FROM unnest($1::smallint[], $2::bigint[]) AS given (bucket, attempt)
             WHERE fence.bucket = given.bucket AND fence.attempt = given.attempt AND until > clock_timestamp()",
            &buckets,
            &attempts,
        );
        let sealed = update.execute(&mut *tx).await?.rows_affected();
        if usize::try_from(sealed).ok() != Some(moves.len()) {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    };
    source.run(work).await
}

/// Lifts the fences of moves that are being copied, on their source. Later attempts are kept.
#[tracing::instrument(level = "debug", name = "sql.moves.lift", skip_all, fields(database = %source.name()))]
pub async fn lift(source: &Database, moves: &[Move]) -> Result<(), StorageError> {
    let delete = sqlx::query!(
        "DELETE FROM noetl.bucket_fence AS fence USING unnest($1::smallint[], $2::bigint[]) AS given (bucket, attempt)
         WHERE fence.bucket = given.bucket AND fence.attempt <= given.attempt AND moved_to IS NULL",
        &buckets(moves),
        &attempts(moves),
    );
    source.run(delete.execute(source.leases())).await?;
    Ok(())
}

/// Makes the states unusable that were read from the target before now, if the buckets of moves have left it before.
/// Returns the sessions that may store such a state as a usable one.
///
/// A replica that was stopped since a bucket had left may still store the state of an execution, without the events
/// that were written elsewhere. The moment of the state is before that of the changed anchor, so no fold starts with it
/// ([`crate::snapshots`]). A statement that began before the change does not see it; such a session must end while the
/// target is fenced. A fence of [`close_target`] does not count: the bucket was never there. A shard without a feed has
/// no anchor before. The anchor of a restored dump stays unchanged, as its states are stored without the database anyway.
#[tracing::instrument(level = "debug", name = "sql.moves.outdate_states", skip_all, fields(database = %target.name()))]
pub async fn outdate_states(target: &Database, moves: &[Move]) -> Result<Writers, StorageError> {
    let anchor = sqlx::query!(
        "INSERT INTO noetl.tail_anchor AS anchor (singleton)
         SELECT true WHERE EXISTS (SELECT FROM noetl.bucket_fence AS fence
                                   JOIN unnest($1::smallint[], $2::bigint[]) AS given (bucket, attempt)
                                     ON fence.bucket = given.bucket AND fence.attempt < given.attempt
                                   WHERE fence.attempt % 1000000 > 0)
         ON CONFLICT (singleton) DO UPDATE SET tx_id = excluded.tx_id
         WHERE anchor.xmin::text::bigint = (anchor.tx_id::text::bigint & 4294967295)",
        &buckets(moves),
        &attempts(moves),
    );
    let work = async {
        match anchor.execute(target.leases()).await?.rows_affected() {
            0 => Ok(Writers(Vec::new())),
            _ => writers(target).await,
        }
    };
    target.run(work).await
}

/// Opens the target of switched moves: deletes the fences of [`close_target`], and those from times at which the buckets
/// had left it.
#[tracing::instrument(level = "debug", name = "sql.moves.open_target", skip_all, fields(database = %target.name()))]
pub async fn open_target(target: &Database, moves: &[Move]) -> Result<(), StorageError> {
    let delete = sqlx::query!(
        "DELETE FROM noetl.bucket_fence AS fence USING unnest($1::smallint[], $2::bigint[]) AS given (bucket, attempt)
         WHERE fence.bucket = given.bucket AND fence.attempt < given.attempt",
        &buckets(moves),
        &attempts(moves),
    );
    target.run(delete.execute(target.leases())).await?;
    Ok(())
}

/// Marks the sealed fences of switched moves with the target, and deletes the open outbox rows of the buckets, which are
/// on the target.
#[tracing::instrument(level = "debug", name = "sql.moves.close_source", skip_all, fields(database = %source.name()))]
pub async fn close_source(source: &Database, moves: &[Move]) -> Result<(), StorageError> {
    let targets: Vec<i16> = moves.iter().map(|one| one.target.cast_signed()).collect();
    let work = async {
        let mut tx = source.leases().begin().await?;
        sqlx::raw_sql("SET LOCAL noetl.moves_buckets = 'on'").execute(&mut *tx).await?;
        let closed = sqlx::query_scalar!(
            r#"UPDATE noetl.bucket_fence AS fence SET moved_to = given.target
               FROM unnest($1::smallint[], $2::bigint[], $3::smallint[]) AS given (bucket, attempt, target)
               WHERE fence.bucket = given.bucket AND fence.attempt = given.attempt AND sealed
               RETURNING fence.bucket"#,
            &buckets(moves),
            &attempts(moves),
            &targets,
        );
        let closed = closed.fetch_all(&mut *tx).await?;
        let delete = sqlx::query!(
            "DELETE FROM noetl.outbox USING noetl.outbox_forward AS forward
             WHERE forward.bucket = ANY($1) AND outbox.outbox_id = forward.outbox_id AND outbox.status <> 'PUBLISHED'",
            &closed,
        );
        delete.execute(&mut *tx).await?;
        tx.commit().await
    };
    source.run(work).await
}

pub(super) fn buckets(moves: &[Move]) -> Vec<i16> {
    moves.iter().map(|one| one.bucket.cast_signed()).collect()
}

fn attempts(moves: &[Move]) -> Vec<i64> {
    moves.iter().map(|one| one.attempt).collect()
}

//! Copy of the outbox rows that are not delivered. They get new ids on the target, in their order. The source keeps the new
//! id of each, so that the old id stays valid. Leases and their tokens are copied.

use sqlx::{AssertSqlSafe, PgConnection};

use super::journal::Move;
use super::rows::{self, open};
use super::transfer::Transfer;
use crate::error::StorageError;
use noetl_domain::ids::Id;
use noetl_domain::shard::bucket_of;

impl Transfer<'_> {
    /// Replaces the target's open rows of these executions by those of the source, and stores the new ids on the source.
    /// The buckets must be constant.
    pub async fn copy_outbox(&mut self, moves: &[Move], executions: &[i64]) -> Result<(), StorageError> {
        let (all, kept) = (self.outbox.without(&[]), self.outbox.without(&["outbox_id"]));
        let open = open(executions);
        rows::run(&mut self.target, &format!("BEGIN; DELETE FROM noetl.outbox WHERE {open}")).await?;
        let query = format!("SELECT {all} FROM noetl.outbox WHERE {open}");
        rows::copy(&mut self.source, &mut self.target, &query, &format!("moved_outbox ({all})")).await?;
        keep_message_ids(self).await?;
        // The rows are inserted in their order, and an identifier of the sequence is taken for each as it is inserted.
        let insert = format!(
            "WITH inserted AS (
                 INSERT INTO noetl.outbox ({kept}) SELECT {kept} FROM moved_outbox ORDER BY outbox_id
                 RETURNING outbox_id, execution_id, event_id
             )
             SELECT moved.outbox_id, inserted.outbox_id, inserted.execution_id
             FROM inserted JOIN moved_outbox AS moved USING (execution_id, event_id)"
        );
        let inserted = sqlx::query_as::<_, (i64, i64, i64)>(AssertSqlSafe(insert));
        let inserted = inserted.fetch_all(&mut self.target.connection).await;
        let inserted = inserted.map_err(|error| self.target.failed(error))?;
        rows::run(&mut self.target, "COMMIT").await?;
        forward(self, moves, &inserted).await
    }

    /// Removes the ids on the source that lead to copied outbox rows.
    pub async fn forget_outbox(&mut self, moves: &[Move]) -> Result<(), StorageError> {
        let forgotten = forget(&mut self.source.connection, moves).await;
        forgotten.map_err(|error| self.source.failed(error))
    }
}

/// Makes the message ids that the rows have in the history of the source those of the history of the target, so that the
/// broker recognises a message that is published again.
async fn keep_message_ids(transfer: &mut Transfer<'_>) -> Result<(), StorageError> {
    let history = sqlx::query_scalar!(r#"SELECT noetl.database_history() AS "history!""#);
    let history = history.fetch_one(&mut transfer.source.connection).await;
    let history = history.map_err(|error| transfer.source.failed(error))?;
    let update =
        format!("UPDATE moved_outbox SET message_history = noetl.database_history() WHERE message_history = {history}");
    rows::run(&mut transfer.target, &update).await
}

/// Stores the new id of each row on the source. The ids of an earlier attempt are replaced; those of rows that left the
/// source at an earlier time are kept.
async fn forward(
    transfer: &mut Transfer<'_>,
    moves: &[Move],
    inserted: &[(i64, i64, i64)],
) -> Result<(), StorageError> {
    let target = moves.first().map_or(0, |one| one.target.cast_signed());
    let old: Vec<i64> = inserted.iter().map(|(old, _, _)| *old).collect();
    let new: Vec<i64> = inserted.iter().map(|(_, new, _)| *new).collect();
    let buckets: Vec<i16> = inserted.iter().map(|(.., id)| bucket_of(Id::new(*id)).cast_signed()).collect();
    let connection = &mut transfer.source.connection;
    let stored = async {
        forget(&mut *connection, moves).await?;
        sqlx::query!(
            "INSERT INTO noetl.outbox_forward (outbox_id, bucket, shard, new_id)
             SELECT old, bucket, $4, new FROM unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS given (old, bucket, new)
             ON CONFLICT (outbox_id) DO UPDATE
             SET bucket = excluded.bucket, shard = excluded.shard, new_id = excluded.new_id",
            &old,
            &buckets,
            &new,
            target,
        )
        .execute(connection)
        .await
    };
    stored.await.map(drop).map_err(|error| transfer.source.failed(error))
}

/// Removes the new ids of rows that the source has: they are those of an attempt that did not switch.
async fn forget(source: &mut PgConnection, moves: &[Move]) -> sqlx::Result<()> {
    let delete = sqlx::query!(
        "DELETE FROM noetl.outbox_forward AS forward USING noetl.outbox
         WHERE forward.bucket = ANY($1) AND outbox.outbox_id = forward.outbox_id",
        &super::fence::buckets(moves),
    );
    delete.execute(source).await.map(drop)
}

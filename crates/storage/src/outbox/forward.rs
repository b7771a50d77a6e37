//! Ids of rows that moved to another shard. A row that is not delivered moves with its bucket and gets another id there.
//! The shard that it left keeps the new id, so that callers can settle, read and retry it by the id that they have.

use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::ids::Id;
use noetl_domain::outbox::OutboxId;
use noetl_domain::outbox_forward::Forwarded;

/// A stored id of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    /// Id of the row in the shard that stores the forward.
    pub outbox_id: i64,
    /// Id of the copy.
    pub copy: OutboxId,
}

/// Returns those of these rows that were copied to another shard.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.forwarded", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn forwarded(shard: &Database, ids: &[i64]) -> Result<Vec<Forwarded>, StorageError> {
    let rows = sqlx::query!(
        r#"SELECT outbox_id, shard, new_id,
                  (SELECT execution_id FROM noetl.outbox WHERE outbox.outbox_id = forward.outbox_id LIMIT 1) AS execution
           FROM noetl.outbox_forward AS forward WHERE outbox_id = ANY($1)"#,
        ids,
    );
    let rows = shard.run(rows.fetch_all(shard.planned_for(ids.len()))).await?;
    let forwarded = rows.into_iter().map(|row| {
        let copy = OutboxId { shard: row.shard.cast_unsigned(), number: row.new_id };
        Forwarded { outbox_id: row.outbox_id, copy, execution: row.execution.map(Id::new) }
    });
    Ok(forwarded.collect())
}

/// Returns the execution of a row; `None`: the shard does not have the row, or the row has no execution.
#[tracing::instrument(level = "debug", name = "sql.outbox.execution_of", skip_all, fields(database = %shard.name(), row = id))]
pub async fn execution_of(shard: &Database, id: i64) -> Result<Option<Id>, StorageError> {
    let execution = sqlx::query_scalar!("SELECT execution_id FROM noetl.outbox WHERE outbox_id = $1", id);
    let execution = shard.run(execution.fetch_optional(shard.planned_once())).await?;
    Ok(execution.flatten().map(Id::new))
}

/// Returns up to `limit` of the forwards of the ids after an id, in order.
#[tracing::instrument(level = "debug", name = "sql.outbox.forwards", skip_all, fields(database = %shard.name()))]
pub async fn forwards(shard: &Database, after: i64, limit: i64) -> Result<Vec<Forward>, StorageError> {
    let rows = sqlx::query!(
        "SELECT outbox_id, shard, new_id FROM noetl.outbox_forward WHERE outbox_id > $1 ORDER BY outbox_id LIMIT $2",
        after,
        limit,
    );
    let rows = shard.run(rows.fetch_all(shard.planned_once())).await?;
    let copy = |to: i16, number| OutboxId { shard: to.cast_unsigned(), number };
    Ok(rows.into_iter().map(|row| Forward { outbox_id: row.outbox_id, copy: copy(row.shard, row.new_id) }).collect())
}

/// Returns which of these rows neither exist nor are forwarded.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.absent", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn absent(shard: &Database, ids: &[i64]) -> Result<Vec<i64>, StorageError> {
    let absent = sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM unnest($1::bigint[]) AS given (id)
           WHERE (SELECT 1 FROM noetl.outbox WHERE outbox_id = given.id LIMIT 1) IS NULL
             AND (SELECT 1 FROM noetl.outbox_forward WHERE outbox_id = given.id LIMIT 1) IS NULL"#,
        ids,
    );
    shard.run(absent.fetch_all(shard.planned_once())).await
}

/// Removes these forwards of rows that have left the shard, whose copies are absent. A forward that leads to another
/// copy than the given one is kept: an attempt of a move has replaced it since. A forward of a row that is still there
/// is one of a move in progress, which replaces it.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.forget_forwards", skip_all,
    fields(database = %shard.name(), count = forwards.len(), first = forwards.first().map(|first| first.outbox_id))
)]
pub async fn forget_forwards(shard: &Database, forwards: &[Forward]) -> Result<u64, StorageError> {
    let ids: Vec<i64> = forwards.iter().map(|forward| forward.outbox_id).collect();
    let shards: Vec<i16> = forwards.iter().map(|forward| forward.copy.shard.cast_signed()).collect();
    let numbers: Vec<i64> = forwards.iter().map(|forward| forward.copy.number).collect();
    let delete = sqlx::query!(
        "DELETE FROM noetl.outbox_forward AS forward
         USING unnest($1::bigint[], $2::smallint[], $3::bigint[]) AS given (outbox_id, shard, new_id)
         WHERE forward.outbox_id = given.outbox_id AND forward.shard = given.shard AND forward.new_id = given.new_id
           AND forward.outbox_id = ANY($1)
           AND NOT EXISTS (SELECT FROM noetl.outbox WHERE outbox.outbox_id = forward.outbox_id)",
        &ids,
        &shards,
        &numbers,
    );
    Ok(shard.run(delete.execute(shard.planned_for(forwards.len()))).await?.rows_affected())
}

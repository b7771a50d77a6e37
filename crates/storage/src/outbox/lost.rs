//! Delivered notifications of executions that no worker has touched, and their repetition.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::error::StorageError;
use crate::pools::Database;
use crate::view::View;
use noetl_domain::list_position::ListPosition;

/// A delivered notification of an execution that has no other event than the one that it tells of.
#[derive(Debug, Clone)]
pub struct Untouched {
    /// Id of the row.
    pub outbox_id: i64,
    /// Id of the message.
    pub message_id: Uuid,
    /// Subject of the row.
    pub subject: String,
}

/// Untouched executions of a page.
#[derive(Debug)]
pub struct UntouchedPage {
    /// Their notifications that one claimant delivered up to a time.
    pub rows: Vec<Untouched>,
    /// Last execution of the page, after which the next one begins; `None` after the last page.
    pub last: Option<ListPosition>,
}

/// Returns the notifications of up to `limit` executions after a position, whose status in the list is PENDING and that
/// have no event of a worker, if `claimant` delivered them up to a time.
#[tracing::instrument(level = "debug", name = "sql.outbox.untouched", skip_all, fields(database = %shard.name()))]
pub async fn untouched(
    shard: View<'_>,
    after: Option<ListPosition>,
    limit: i64,
    claimant: &str,
    until: DateTime<Utc>,
) -> Result<UntouchedPage, StorageError> {
    let work = async {
        let pending = sqlx::query!(
            r#"SELECT noetl.list_time(start_time, 9) AS "time!", execution_id FROM noetl.execution
               WHERE upper(status) = 'PENDING'
                 AND ($1::timestamptz IS NULL OR (noetl.list_time(start_time, 9), execution_id) > ($1, $2))
               ORDER BY noetl.list_time(start_time, 9), execution_id LIMIT $3"#,
            after.map(|after| after.at),
            after.map(|after| after.id),
            limit,
        );
        let pending = pending.fetch_all(shard.pool()).await?;
        let ids: Vec<i64> = pending.iter().map(|row| row.execution_id).collect();
        let rows = sqlx::query_as!(
            Untouched,
            r#"SELECT outbox_id AS "outbox_id!", message_id AS "message_id!", subject AS "subject!"
               FROM noetl.outbox AS row
               WHERE execution_id = ANY($1) AND status = 'PUBLISHED' AND claimant = $2 AND published_at <= $3
                 AND message_id IS NOT NULL AND subject IS NOT NULL
                 AND CASE WHEN $4::bytea IS NULL THEN true ELSE get_bit($4, noetl.bucket_of(execution_id)) = 1 END
                 AND NOT EXISTS (SELECT FROM noetl.event
                                 WHERE event.execution_id = row.execution_id AND event.event_id <> row.event_id)
               ORDER BY outbox_id"#,
            &ids,
            claimant,
            until,
            shard.held(),
        );
        let last = pending.last().filter(|_| i64::try_from(pending.len()) == Ok(limit));
        let last = last.map(|row| ListPosition { at: row.time, id: row.execution_id });
        Ok(UntouchedPage { rows: rows.fetch_all(shard.pool()).await?, last })
    };
    shard.run(work).await
}

/// Makes delivered rows claimable again, with new message ids, unless they were delivered again since. Returns their number.
#[tracing::instrument(
    level = "debug", name = "sql.outbox.deliver_again", skip_all,
    fields(database = %shard.name(), count = rows.len())
)]
pub async fn deliver_again(shard: &Database, rows: &[Untouched], reason: &str) -> Result<u64, StorageError> {
    let (ids, messages): (Vec<i64>, Vec<Uuid>) = rows.iter().map(|row| (row.outbox_id, row.message_id)).unzip();
    let update = sqlx::query!(
        "UPDATE noetl.outbox AS row
         SET status = 'PENDING', attempts = 0, available_at = now(), updated_at = now(), published_at = NULL,
             last_error = $3, lease_until = NULL, lease_token = NULL, claimant = NULL, message_id = NULL,
             message_history = NULL
         FROM unnest($1::bigint[], $2::uuid[]) AS given (id, message)
         WHERE row.outbox_id = given.id AND row.message_id = given.message AND row.status = 'PUBLISHED'
           AND row.outbox_id = ANY($1)",
        &ids,
        &messages,
        reason,
    );
    Ok(shard.run(update.execute(shard.pool())).await?.rows_affected())
}

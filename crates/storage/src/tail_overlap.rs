//! Comparison of a stream with the database after a promotion or a restore: which of the published events does this
//! database have?

use super::error::StorageError;
use super::pools::Database;
use noetl_domain::event::EventKey;

/// Event as a message of the stream names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedEvent {
    /// Key of the event.
    pub key: EventKey,
    /// Id of the transaction that wrote it. `None` if the message does not contain it, or if the ids of the database
    /// were changed. An event with the same key but another transaction is another event.
    pub tx_id: Option<u64>,
}

/// Returns the indexes of those of these events that the database does not have, in order.
#[tracing::instrument(
    level = "debug", name = "sql.tail_overlap.missing", skip_all,
    fields(database = %shard.name(), count = events.len())
)]
pub async fn missing(shard: &Database, events: &[PublishedEvent]) -> Result<Vec<usize>, StorageError> {
    let executions: Vec<i64> = events.iter().map(|event| event.key.execution_id).collect();
    let ids: Vec<i64> = events.iter().map(|event| event.key.event_id).collect();
    let transactions: Vec<String> =
        events.iter().map(|event| event.tx_id.map_or_else(String::new, |id| id.to_string())).collect();
    let query = sqlx::query_scalar!(
        r#"SELECT number AS "number!"
           FROM unnest($1::bigint[], $2::bigint[], $3::text[]) WITH ORDINALITY
                AS given (execution_id, event_id, tx_id, number)
           WHERE (SELECT 1 FROM noetl.event
                  WHERE event.execution_id = given.execution_id AND event.event_id = given.event_id
                    AND (given.tx_id = '' OR event.tx_id::text = given.tx_id) LIMIT 1) IS NULL
           ORDER BY number"#,
        &executions,
        &ids,
        &transactions,
    );
    let numbers = shard.run(query.fetch_all(shard.pool())).await?;
    Ok(numbers.into_iter().filter_map(|number| usize::try_from(number - 1).ok()).collect())
}

//! Logs with new events, found by the transactions that wrote them.

use sqlx::PgConnection;

use noetl_domain::ids::Id;
use noetl_domain::tx_spans::Spans;

/// Returns the executions, and source subscriptions, with events of these transactions, except those with events of
/// `other_types` only.
pub(super) async fn of(
    connection: &mut PgConnection,
    transactions: &Spans,
    other_types: &[&str],
) -> sqlx::Result<Vec<Id>> {
    let ids = sqlx::query_scalar!(
        r#"SELECT DISTINCT event.execution_id AS "id!"
           FROM unnest($1::text[]::xid8[], $2::text[]::xid8[]) AS span (low, high)
           CROSS JOIN LATERAL (
               SELECT execution_id, event_type FROM noetl.event
               WHERE tx_id >= span.low AND tx_id < span.high OFFSET 0
           ) AS event
           WHERE coalesce(event.event_type, '') <> ALL ($3)"#,
        &transactions.low,
        &transactions.high,
        other_types as &[&str],
    );
    Ok(ids.fetch_all(connection).await?.into_iter().map(Id::new).collect())
}

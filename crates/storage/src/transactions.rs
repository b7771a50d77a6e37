//! Prepared transactions of a shard. They do not delay the events of other transactions, but their own events are not
//! published until an operator commits or rolls them back.

use super::error::StorageError;
use super::pools::Database;

/// Number and age of a database's prepared transactions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prepared {
    /// Number of prepared transactions.
    pub count: i64,
    /// Age of the oldest in seconds; `None` if none is prepared.
    pub oldest_seconds: Option<f64>,
}

/// Returns the number and the age of the transactions that are prepared and neither committed nor rolled back.
pub async fn prepared(shard: &Database) -> Result<Prepared, StorageError> {
    let query = sqlx::query_as!(
        Prepared,
        r#"SELECT count(*) AS "count!", extract(epoch FROM now() - min(prepared))::float8 AS oldest_seconds
           FROM pg_prepared_xacts WHERE database = current_database()"#,
    );
    shard.run(query.fetch_one(shard.planned_once())).await
}

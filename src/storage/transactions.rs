//! Transactions of a shard that hold back nothing but may surprise: prepared ones stay until somebody settles them.

use super::error::StorageError;
use super::pools::Database;

/// The prepared transactions of a database.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prepared {
    /// How many there are.
    pub count: i64,
    /// The age of the oldest in seconds.
    pub oldest_seconds: Option<f64>,
}

/// The transactions that are prepared and neither committed nor rolled back.
pub async fn prepared(shard: &Database) -> Result<Prepared, StorageError> {
    let query = sqlx::query_as!(
        Prepared,
        r#"SELECT count(*) AS "count!", extract(epoch FROM now() - min(prepared))::float8 AS oldest_seconds
           FROM pg_prepared_xacts WHERE database = current_database()"#,
    );
    shard.run(query.fetch_one(shard.pool())).await
}

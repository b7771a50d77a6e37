//! Rows of the databases, read without the server.

use sqlx::postgres::PgRow;
use sqlx::{Connection, FromRow, PgConnection};

use super::Deployment;

/// The columns of an event that describe a subscription's lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct LifecycleEvent {
    /// Id of the event.
    pub event_id: i64,
    /// Type of the event, such as `subscription.paused`.
    pub event_type: String,
    /// State of the subscription after the event.
    pub status: Option<String>,
}

impl Deployment {
    /// Returns the rows of a query on every shard, in the order of the shards.
    pub async fn rows<T>(&self, query: &'static str, id: &str) -> Vec<T>
    where
        T: for<'row> FromRow<'row, PgRow> + Send + Unpin,
    {
        let id: i64 = id.parse().unwrap();
        let mut rows = Vec::new();
        for dsn in &self.shard_dsns {
            let mut shard = PgConnection::connect(dsn).await.unwrap();
            rows.extend(sqlx::query_as(query).bind(id).fetch_all(&mut shard).await.unwrap());
        }
        rows
    }

    /// Returns a subscription's lifecycle log in commit order. Each event is written while the log is locked, so the
    /// order of transaction ids is the commit order, even if the event ids have another order.
    pub async fn lifecycle(&self, subscription: &str) -> Vec<LifecycleEvent> {
        let query = "SELECT event_id, event_type, status FROM noetl.event
                     WHERE execution_id = $1 AND event_type NOT LIKE 'subscription.message.%' ORDER BY tx_id, event_id";
        self.rows(query, subscription).await
    }

    /// Returns the single value of a query on the cluster database.
    pub async fn in_cluster(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&mut self.cluster().await).await.unwrap()
    }
}

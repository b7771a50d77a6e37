//! Rows of the databases, read without the server.

use std::collections::BTreeMap;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, FromRow, PgConnection};

use super::{Deployment, eventually};

/// Settings that turn off the tasks that write at any time.
pub const QUIET: [(&str, &str); 3] =
    [("NOETL_EVENT_STREAM_ENABLED", "false"), ("NOETL_OUTBOX_RELAY", "false"), ("NOETL_PROJECTOR", "false")];

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
        for shard in 0..self.shard_dsns.len() {
            let mut session = self.shard_session(shard).await;
            rows.extend(sqlx::query_as(query).bind(id).fetch_all(&mut *session).await.unwrap());
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

    /// Waits until all dedup claims are settled, which happens after the responses.
    pub async fn until_claims_are_settled(&self) {
        let reserved = "SELECT count(*) FROM noetl.subscription_dedup WHERE state = 0";
        eventually("all claims are settled", async || (self.in_cluster(reserved).await == 0).then_some(())).await;
    }

    /// Returns the digest of the rows of each table of each database, to compare them later. Without the tables that
    /// background tasks write at any time; start the replica with [`QUIET`], so that there are no others.
    pub async fn table_digests(&self) -> BTreeMap<String, String> {
        let mut digests = BTreeMap::new();
        for dsn in self.shard_dsns.iter().chain([&self.cluster_dsn]) {
            let mut database = PgConnection::connect(dsn).await.unwrap();
            let tables = "SELECT relname::text FROM pg_class WHERE relnamespace = 'noetl'::regnamespace
                          AND relkind IN ('r', 'p') AND NOT relispartition
                          AND relname NOT IN ('read_model_fill', 'machine_lease')
                          AND relname NOT LIKE 'execution\\_history%'";
            for table in sqlx::query_scalar::<_, String>(tables).fetch_all(&mut database).await.unwrap() {
                let digest = format!(
                    "SELECT md5(coalesce(string_agg(row::text, chr(10) ORDER BY row::text), '')) FROM noetl.{table} AS row"
                );
                let digest = sqlx::query_scalar(AssertSqlSafe(digest)).fetch_one(&mut database).await.unwrap();
                digests.insert(format!("{dsn} {table}"), digest);
            }
        }
        digests
    }

    /// Returns the number of rows and index entries that were read so far from the tables of a shard with names that
    /// begin with `tables`. Waits until the sessions of the server's code have ended, because a session publishes its
    /// counts at its end.
    pub async fn entries_read(&self, shard: usize, tables: &str) -> i64 {
        self.until_sessions_ended(shard).await;
        let mut session = self.shard_session(shard).await;
        let read = "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE starts_with(relname, $1))::bigint
                         + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE starts_with(relname, $1))::bigint";
        sqlx::query_scalar(read).bind(tables).fetch_one(&mut *session).await.unwrap()
    }

    /// Waits until the sessions of the server's code on a shard have ended. A statement may outlast the process that sent
    /// it.
    pub async fn until_sessions_ended(&self, shard: usize) {
        let mut session = self.shard_session(shard).await;
        let open = "SELECT EXISTS (SELECT FROM pg_stat_activity
                                   WHERE datname = current_database() AND application_name = 'noetl-graphql')";
        eventually("the sessions have ended", async || {
            let open: bool = sqlx::query_scalar(open).fetch_one(&mut *session).await.unwrap();
            (!open).then_some(())
        })
        .await;
    }

    /// Returns the single value of a query on the cluster database.
    pub async fn in_cluster(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&mut *self.cluster_session().await).await.unwrap()
    }
}

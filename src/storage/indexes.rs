//! Indexes on tables that may be large already: built concurrently, so that writers go on.
//!
//! A plain table's index is created concurrently; one that an interrupted build left invalid is dropped first. An index
//! of the partitioned event table exists on the parent by migration; here each partition gets its own and is attached.
//! All of it can be repeated. It runs on a connection of its own, outside any transaction, by one process at a time: the
//! caller holds the migration lock.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::error::StorageError;
use super::pools::Database;

/// (name, table, what follows the table's name) of the indexes on plain tables.
const PLAIN: &[(&str, &str, &str)] = &[
    (
        "execution_parent_idx",
        "noetl.execution",
        "(parent_execution_id, execution_id) WHERE parent_execution_id IS NOT NULL",
    ),
    ("execution_status_idx", "noetl.execution", "(upper(status), execution_id)"),
    ("subscription_dedup_expiry_idx", "noetl.subscription_dedup", "(expires_at) WHERE state = 1"),
    ("subscription_dedup_reserved_idx", "noetl.subscription_dedup", "(execution_id) WHERE state = 0"),
    // What is claimable, by status and of which execution. The conditions that always hold keep the planner from taking
    // an index that orders all rows for one execution's, or the other way round: while few rows have a status, both look
    // alike to it, and one of them walks over everything that was settled.
    ("outbox_pending_idx", "noetl.outbox", "(outbox_id) WHERE status = 'PENDING' AND attempts >= 0"),
    (
        "outbox_pending_execution_idx",
        "noetl.outbox",
        "(execution_id, outbox_id) WHERE status = 'PENDING' AND execution_id IS NOT NULL",
    ),
    ("outbox_failed_idx", "noetl.outbox", "(available_at) WHERE status = 'FAILED' AND attempts >= 0"),
    (
        "outbox_failed_execution_idx",
        "noetl.outbox",
        "(execution_id, outbox_id) WHERE status = 'FAILED' AND execution_id IS NOT NULL",
    ),
    ("outbox_lease_idx", "noetl.outbox", "(lease_until) WHERE status = 'IN_FLIGHT' AND attempts >= 0"),
    (
        "outbox_lease_execution_idx",
        "noetl.outbox",
        "(execution_id, lease_until) WHERE status = 'IN_FLIGHT' AND execution_id IS NOT NULL",
    ),
    // For the purge, and for people. With the collation, the planner can't take the lists' indexes for a claim: it may
    // believe that a status is rare while its settled rows are many.
    ("outbox_published_idx", "noetl.outbox", "(published_at) WHERE status = 'PUBLISHED'"),
    ("outbox_newest_idx", "noetl.outbox", "(status COLLATE \"C\", created_at, outbox_id)"),
    ("outbox_retried_idx", "noetl.outbox", "(status COLLATE \"C\", created_at, outbox_id) WHERE attempts > 1"),
];

/// The indexes of the event table, whose definitions are in the migrations.
const EVENT: [&str; 4] = ["event_tx_idx", "event_landmark_idx", "event_registered_idx", "event_log_tx_idx"];

/// Builds what is missing. Takes as long as the tables are large; writers go on.
pub async fn build(database: &Database) -> Result<(), StorageError> {
    let work = async {
        let mut connection = database.connect().await?;
        for (name, table, definition) in PLAIN {
            build_plain(&mut connection, name, table, definition).await?;
        }
        for name in EVENT {
            build_on_partitions(&mut connection, name).await?;
        }
        connection.close().await
    };
    work.await.map_err(|error| database.failed(error))
}

async fn build_plain(connection: &mut PgConnection, name: &str, table: &str, definition: &str) -> sqlx::Result<()> {
    drop_invalid(connection, name).await?;
    run(connection, format!("CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table} {definition}")).await
}

/// A partition's index is the parent's definition with another name and table.
async fn build_on_partitions(connection: &mut PgConnection, parent: &str) -> sqlx::Result<()> {
    let missing = sqlx::query!(
        r#"SELECT partition.relname AS "partition!", pg_get_indexdef(parent.oid) AS "definition!"
           FROM pg_class AS parent
           JOIN pg_index ON pg_index.indexrelid = parent.oid
           JOIN pg_inherits AS part ON part.inhparent = pg_index.indrelid
           JOIN pg_class AS partition ON partition.oid = part.inhrelid
           WHERE parent.relname = $1 AND parent.relnamespace = 'noetl'::regnamespace
             AND NOT EXISTS (
                 SELECT 1 FROM pg_inherits AS attached JOIN pg_index AS own ON own.indexrelid = attached.inhrelid
                 WHERE attached.inhparent = parent.oid AND own.indrelid = partition.oid)"#,
        parent,
    )
    .fetch_all(&mut *connection)
    .await?;
    for row in missing {
        let name = format!("{}_{parent}", row.partition);
        let definition = row
            .definition
            .replacen(&format!("INDEX {parent} ON ONLY noetl.event "), "", 1)
            .trim_start_matches("CREATE ")
            .to_owned();
        drop_invalid(connection, &name).await?;
        let table = format!("noetl.\"{}\"", row.partition);
        run(connection, format!("CREATE INDEX CONCURRENTLY IF NOT EXISTS \"{name}\" ON {table} {definition}")).await?;
        run(connection, format!("ALTER INDEX noetl.{parent} ATTACH PARTITION noetl.\"{name}\"")).await?;
    }
    Ok(())
}

async fn drop_invalid(connection: &mut PgConnection, name: &str) -> sqlx::Result<()> {
    let invalid = sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT 1 FROM pg_index JOIN pg_class ON pg_class.oid = pg_index.indexrelid
               WHERE relname = $1 AND relnamespace = 'noetl'::regnamespace AND NOT indisvalid) AS "invalid!""#,
        name,
    )
    .fetch_one(&mut *connection)
    .await?;
    if invalid { run(connection, format!("DROP INDEX CONCURRENTLY noetl.\"{name}\"")).await } else { Ok(()) }
}

/// The text is made of the names above and of names that the catalog gave, quoted.
async fn run(connection: &mut PgConnection, statement: String) -> sqlx::Result<()> {
    sqlx::query(AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}

//! Indexes on tables that may be large already. They are built concurrently, so they do not block writers.
//!
//! An index of a plain table is created concurrently; an invalid index that an interrupted build left is dropped first.
//! The migrations create the indexes of the partitioned event table on the parent only; here each partition gets its
//! own index, which is attached to the parent's. Every step can be repeated. The build uses a connection of its own,
//! outside any transaction. It relies on the caller to hold the migration lock, so that one process builds at a time.

use std::collections::HashSet;

use sqlx::{AssertSqlSafe, Connection, PgConnection, PgExecutor};

use super::error::StorageError;
use super::lock_wait::{self, SHORT_WAIT};
use super::pools::Database;

/// Indexes on plain tables: name, table, and the rest of the definition.
const PLAIN: &[(&str, &str, &str)] = &[
    // For lists. See `execution_select`: each has a place of its own as the second argument of `list_time`.
    ("execution_time_idx", "noetl.execution", "(noetl.list_time(start_time), execution_id)"),
    (
        "execution_parent_status_idx",
        "noetl.execution",
        "(parent_execution_id, tenant_id, upper(status), noetl.list_time(start_time, 1), execution_id)
         WHERE parent_execution_id IS NOT NULL",
    ),
    (
        "execution_catalog_status_idx",
        "noetl.execution",
        "(catalog_id, upper(status), noetl.list_time(start_time, 2), execution_id)",
    ),
    (
        "execution_path_status_idx",
        "noetl.execution",
        "((path COLLATE \"C\"), upper(status), noetl.list_time(start_time, 5), execution_id) WHERE path IS NOT NULL",
    ),
    (
        "execution_ended_idx",
        "noetl.execution",
        "(upper(status), noetl.duration_class(start_time, end_time), noetl.list_time(start_time, 7), execution_id)
         WHERE end_time IS NOT NULL",
    ),
    (
        "execution_last_ended_idx",
        "noetl.execution",
        "((CASE WHEN end_time IS NOT NULL THEN upper(status) END), noetl.list_time(end_time, 19), execution_id)
         WHERE end_time IS NOT NULL",
    ),
    (
        "execution_longest_idx",
        "noetl.execution",
        "((CASE WHEN end_time IS NULL THEN '' ELSE upper(status) END),
          noetl.list_time(noetl.duration_time(start_time, end_time), 21), execution_id) WHERE end_time IS NOT NULL",
    ),
    // For the history of executions.
    ("execution_end_idx", "noetl.execution", "(end_time) WHERE end_time IS NOT NULL"),
    ("execution_status_time_idx", "noetl.execution", "(upper(status), noetl.list_time(start_time, 9), execution_id)"),
    (
        "execution_root_idx",
        "noetl.execution",
        "((CASE WHEN parent_execution_id IS NULL THEN upper(status) END), noetl.list_time(start_time, 12), execution_id)
         WHERE parent_execution_id IS NULL",
    ),
    (
        "execution_failed_steps_idx",
        "noetl.execution",
        "((CASE WHEN failed_steps > 0 THEN upper(status) END), noetl.list_time(start_time, 17), execution_id)
         WHERE failed_steps > 0",
    ),
    (
        "execution_pool_idx",
        "noetl.execution",
        "(execution_pool, upper(status), noetl.list_time(start_time, 14), execution_id)
         WHERE execution_pool IS NOT NULL",
    ),
    (
        "execution_rerun_idx",
        "noetl.execution",
        "(rerun_of, tenant_id, upper(status), noetl.list_time(start_time, 16), execution_id)
         WHERE rerun_of IS NOT NULL",
    ),
    (
        "execution_reruns_idx",
        "noetl.execution",
        "((CASE WHEN rerun_of IS NOT NULL THEN tenant_id END), upper(status), noetl.list_time(start_time, 23), execution_id)
         WHERE rerun_of IS NOT NULL",
    ),
    ("execution_label_idx", "noetl.execution_label", "(label, label_status, noetl.list_time(label_time), execution_id)"),
    // For lists of a tenant or of an organization. They are empty in a deployment that names none.
    (
        "execution_label_tenant_idx",
        "noetl.execution_label",
        "(label_tenant, (CASE WHEN label_tenant <> 'default' THEN label END), label_status,
          noetl.list_time(label_time, 1), execution_id) INCLUDE (label) WHERE label_tenant <> 'default'",
    ),
    (
        "execution_tenant_root_idx",
        "noetl.execution",
        "((CASE WHEN parent_execution_id IS NULL THEN tenant_id END), upper(status), noetl.list_time(start_time, 13),
          execution_id)
         WHERE tenant_id <> 'default' AND parent_execution_id IS NULL",
    ),
    (
        "execution_tenant_failed_steps_idx",
        "noetl.execution",
        "((CASE WHEN failed_steps > 0 THEN tenant_id END), upper(status), noetl.list_time(start_time, 18), execution_id)
         WHERE tenant_id <> 'default' AND failed_steps > 0",
    ),
    (
        "execution_tenant_pool_idx",
        "noetl.execution",
        "(tenant_id, execution_pool, upper(status), noetl.list_time(start_time, 15), execution_id)
         WHERE tenant_id <> 'default' AND execution_pool IS NOT NULL",
    ),
    (
        "execution_tenant_catalog_idx",
        "noetl.execution",
        "(tenant_id, catalog_id, upper(status), noetl.list_time(start_time, 3), execution_id)
         WHERE tenant_id <> 'default'",
    ),
    (
        "execution_organization_idx",
        "noetl.execution",
        "(organization_id, tenant_id, upper(status), noetl.list_time(start_time, 4), execution_id)
         WHERE organization_id <> 'default'",
    ),
    (
        "execution_tenant_path_idx",
        "noetl.execution",
        "(tenant_id, (path COLLATE \"C\"), upper(status), noetl.list_time(start_time, 6), execution_id)
         WHERE tenant_id <> 'default' AND path IS NOT NULL",
    ),
    (
        "execution_tenant_ended_idx",
        "noetl.execution",
        "(tenant_id, upper(status), noetl.duration_class(start_time, end_time), noetl.list_time(start_time, 8),
          execution_id) WHERE tenant_id <> 'default' AND end_time IS NOT NULL",
    ),
    (
        "execution_tenant_status_idx",
        "noetl.execution",
        "(tenant_id, upper(status), noetl.list_time(start_time, 10), execution_id) WHERE tenant_id <> 'default'",
    ),
    (
        "execution_tenant_last_ended_idx",
        "noetl.execution",
        "((CASE WHEN end_time IS NOT NULL THEN tenant_id END), upper(status), noetl.list_time(end_time, 20), execution_id)
         WHERE tenant_id <> 'default' AND end_time IS NOT NULL",
    ),
    (
        "execution_tenant_longest_idx",
        "noetl.execution",
        "((CASE WHEN end_time IS NULL THEN '' ELSE tenant_id END), upper(status),
          noetl.list_time(noetl.duration_time(start_time, end_time), 22), execution_id)
         WHERE tenant_id <> 'default' AND end_time IS NOT NULL",
    ),
    // For lists of the catalog. The collation makes the paths with a prefix a range.
    ("catalog_path_idx", "noetl.catalog", "((path COLLATE \"C\"), version)"),
    // Of all entries and of a path, by registration and by retirement. See `catalog::list_by_time`: each has a place of its
    // own as the second argument of `list_time`.
    ("catalog_registered_idx", "noetl.catalog", "(noetl.list_time(created_at AT TIME ZONE 'UTC'), catalog_id)"),
    (
        "catalog_path_registered_idx",
        "noetl.catalog",
        "((path COLLATE \"C\"), noetl.list_time(created_at AT TIME ZONE 'UTC', 1), catalog_id)",
    ),
    (
        "catalog_retired_idx",
        "noetl.catalog",
        "(noetl.list_time(archived_at, 2), catalog_id) WHERE archived_at IS NOT NULL",
    ),
    (
        "catalog_path_retired_idx",
        "noetl.catalog",
        "((path COLLATE \"C\"), noetl.list_time(archived_at, 3), catalog_id) WHERE archived_at IS NOT NULL",
    ),
    // Entries whose names were not read from their documents yet: none, or those that NoETL's server registered lately.
    ("catalog_unnamed_idx", "noetl.catalog", "(catalog_id) WHERE name IS NULL"),
    ("subscription_dedup_expiry_idx", "noetl.subscription_dedup", "(expires_at) WHERE state = 1"),
    ("subscription_dedup_noetl_idx", "noetl.subscription_dedup", "(seen_at) WHERE state = 1 AND expires_at IS NULL"),
    ("subscription_dedup_reserved_idx", "noetl.subscription_dedup", "(execution_id) WHERE state = 0"),
    // Claimable rows by status, over all executions and per execution. `attempts >= 0` and `execution_id IS NOT NULL`
    // exclude no row that their queries want. They bind each query to one of the two indexes: while few rows have a
    // status, the planner estimates the same cost for both, but one of them would read the entries of all settled rows.
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
    // For the purge, and for the lists of the API. The planner can't use the list indexes for a claim, because their
    // first column is another expression than `status`. It would estimate few rows with a status although such an index
    // holds many entries of settled rows.
    ("outbox_published_idx", "noetl.outbox", "(published_at) WHERE status = 'PUBLISHED'"),
    ("outbox_state_idx", "noetl.outbox", "(noetl.outbox_state(status, available_at), created_at, outbox_id)"),
    (
        "outbox_attempts_idx",
        "noetl.outbox",
        "(noetl.outbox_state(status, available_at), attempts, created_at, outbox_id) WHERE attempts > 1",
    ),
    // For lists of a tenant or of an organization. They are empty in a deployment that names none.
    (
        "outbox_organization_idx",
        "noetl.outbox",
        "(noetl.outbox_owner(organization_id, payload, 'organization_id'),
          noetl.outbox_owner(tenant_id, payload, 'tenant_id'), noetl.outbox_state(status, available_at), created_at,
          outbox_id) WHERE noetl.outbox_owner(organization_id, payload, 'organization_id') <> 'default'",
    ),
    (
        "outbox_tenant_idx",
        "noetl.outbox",
        "(noetl.outbox_owner(tenant_id, payload, 'tenant_id'), noetl.outbox_state(status, available_at), created_at,
          outbox_id) WHERE noetl.outbox_owner(tenant_id, payload, 'tenant_id') <> 'default'",
    ),
];

/// Index that makes keys of events unique in their logs.
const EVENT_KEY: &str = "event_key_idx";

/// Indexes of the event table; the migrations define them.
const EVENT: [&str; 14] = [
    "event_tx_idx",
    "event_page_idx",
    "event_landmarks_idx",
    "event_registered_idx",
    "event_log_tx_idx",
    EVENT_KEY,
    "event_registered_path_idx",
    "event_registered_time_idx",
    "event_kind_idx",
    "event_node_kind_idx",
    "event_tenant_kind_idx",
    "event_tenant_node_idx",
    "event_organization_idx",
    "event_parent_idx",
];

/// Attempts to attach the index of a partition, whose queries wait behind each attempt.
const ATTACH_ATTEMPTS: u32 = 300;

/// Index that [`build`] builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingIndex {
    /// Its name.
    pub index: String,
    /// Its table.
    pub table: String,
}

/// Returns the indexes that [`build`] would build now. Those that follow from a migration that is not applied yet are
/// missing: a parent index on the event table does not exist before its migration.
pub async fn pending(database: &Database) -> Result<Vec<MissingIndex>, StorageError> {
    let work = async {
        let mut connection = database.connect().await?;
        let valid = sqlx::query_scalar!(
            r#"SELECT relname::text AS "name!" FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid
               WHERE relnamespace = to_regnamespace('noetl') AND indisvalid"#,
        );
        let valid: HashSet<String> = valid.fetch_all(&mut connection).await?.into_iter().collect();
        let missing = PLAIN.iter().filter(|(name, ..)| !valid.contains(*name));
        let mut found: Vec<_> = missing
            .map(|(name, table, _)| MissingIndex { index: (*name).to_owned(), table: (*table).to_owned() })
            .collect();
        // A database without valid indexes has no schema yet.
        for parent in EVENT.iter().filter(|_| !valid.is_empty()) {
            let missing = missing_on_partitions(&mut connection, parent).await?;
            found.extend(missing.into_iter().map(|(partition, _)| MissingIndex {
                index: format!("{partition}_{parent}"),
                table: format!("noetl.{partition}"),
            }));
        }
        connection.close().await?;
        Ok(found)
    };
    work.await.map_err(|error| database.failed(error))
}

/// Returns whether each partition of a migrated database has the index that makes keys of events unique.
pub(super) async fn are_keys_unique(database: &Database) -> Result<bool, StorageError> {
    let missing = database.run(missing_on_partitions(database.pool(), EVENT_KEY)).await?;
    Ok(missing.is_empty())
}

/// Builds the missing indexes without blocking writers. The duration grows with the size of the tables.
pub async fn build(database: &Database) -> Result<(), StorageError> {
    let work = async {
        let mut connection = database.connect().await?;
        for (name, table, definition) in PLAIN {
            drop_invalid(&mut connection, name).await?;
            let create = format!("CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table} {definition}");
            run(&mut connection, create).await?;
        }
        for name in EVENT {
            build_on_partitions(&mut connection, name).await?;
        }
        connection.close().await
    };
    work.await.map_err(|error| database.failed(error))
}

/// Returns the partitions that lack the index of a parent index, with the definition of the parent's.
async fn missing_on_partitions(connection: impl PgExecutor<'_>, parent: &str) -> sqlx::Result<Vec<(String, String)>> {
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
    .fetch_all(connection)
    .await?;
    Ok(missing.into_iter().map(|row| (row.partition, row.definition)).collect())
}

/// Builds and attaches the missing partition indexes of a parent index, from the parent's definition with another name
/// and table.
async fn build_on_partitions(connection: &mut PgConnection, parent: &str) -> sqlx::Result<()> {
    for (partition, definition) in missing_on_partitions(&mut *connection, parent).await? {
        let name = format!("{partition}_{parent}");
        let of_parent = format!("INDEX {parent} ON ONLY noetl.event ");
        let (create, columns) = definition.split_once(&of_parent).unwrap_or_default();
        drop_invalid(connection, &name).await?;
        let table = format!("noetl.\"{partition}\"");
        run(connection, format!("{create}INDEX CONCURRENTLY IF NOT EXISTS \"{name}\" ON {table} {columns}")).await?;
        attach(connection, parent, &name).await?;
    }
    Ok(())
}

/// Attaches the index of a partition to the parent's. Only this statement has a lock timeout: a concurrent build waits
/// for other transactions without blocking them.
async fn attach(connection: &mut PgConnection, parent: &str, name: &str) -> sqlx::Result<()> {
    let attach = format!("ALTER INDEX noetl.{parent} ATTACH PARTITION noetl.\"{name}\"");
    run(connection, SHORT_WAIT.to_owned()).await?;
    lock_wait::run(connection, &attach, ATTACH_ATTEMPTS).await?;
    run(connection, "RESET lock_timeout".to_owned()).await
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

/// Runs a statement whose text consists of the constants above and of quoted names from PostgreSQL's catalog.
async fn run(connection: &mut PgConnection, statement: String) -> sqlx::Result<()> {
    sqlx::query(AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}

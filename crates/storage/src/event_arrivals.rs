//! Reads of logs in the order in which their events arrived.
//!
//! PostgreSQL does not record the order of commits. So a reader keeps a snapshot: it has read all events that are visible
//! in the snapshot. The next read returns the events that are visible in a later snapshot and not in this one, ordered by
//! transaction and then by event id. An event that is committed late is in a later read, even if its id is smaller.

use super::error::StorageError;
use super::events::{EventRow, LargeColumns, in_logs, wanted_logs};
use super::pools::Database;
use super::tail::parse;
use noetl_domain::event::Event;
use noetl_domain::event_list::{Arrival, LogFilter};
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;
use noetl_domain::tx_snapshot::TxSnapshot;
use plain_json::Text;

/// The transactions of a database that have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Snapshot of the database.
    pub snapshot: TxSnapshot,
    /// Identity of the server and its timeline. Another server, or a server that was promoted or restored, uses the same
    /// transaction ids for other transactions.
    pub server: u64,
}

impl Moment {
    /// Returns the identity of the server for a log that has moved this many times. The shards of a deployment can be on one
    /// server, and the events of a moved log have other transaction ids than before.
    #[must_use]
    pub fn server_after(&self, moves: usize) -> u64 {
        self.server.wrapping_add((moves as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// An event with its place in the order of arrival.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// The event.
    pub event: Event<Text>,
    /// Transaction that wrote it.
    pub tx_id: u64,
    /// Whether the event is in the batch after the one of the reader's position.
    pub is_in_next_batch: bool,
}

/// Returns the transactions that have ended.
#[tracing::instrument(level = "debug", name = "sql.events.moment", skip_all, fields(database = %shard.name()))]
pub async fn moment(shard: &Database) -> Result<Moment, StorageError> {
    let row = sqlx::query!(
        r#"SELECT pg_current_snapshot()::text AS "snapshot!",
                  hashint8extended(system_identifier,
                      ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint) AS "server!"
           FROM pg_control_system()"#,
    );
    let row = shard.run(row.fetch_one(shard.planned_once())).await?;
    Ok(Moment { snapshot: parse(shard, &row.snapshot)?, server: row.server.cast_unsigned() })
}

/// Returns at most `limit` events in the scope for each of these logs, in the order of arrival, grouped by log: the rest
/// of the position's batch, then the events that `now` sees and the batch does not. Large columns that are not in
/// `columns` are absent.
#[tracing::instrument(
    level = "debug", name = "sql.events.arrived", skip_all,
    fields(database = %shard.name(), count = executions.len(), first = executions.first())
)]
pub async fn list(
    shard: &Database,
    scope: &Scope,
    executions: &[i64],
    filter: &LogFilter,
    columns: &LargeColumns,
    after: &Arrival,
    now: &TxSnapshot,
    limit: i64,
) -> Result<Vec<Arrived>, StorageError> {
    let type_patterns = filter.event.type_patterns();
    // A batch is read along the index on the transactions of a log, so each part has a bound on them.
    let rows = in_logs!(
        query!(),
        scope,
        filter,
        type_patterns,
        r#"SELECT execution_id AS "execution_id!", event_id AS "event_id!", catalog_id AS "catalog_id!",
                  parent_event_id, parent_execution_id,
                  greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                  coalesce(event_type, '') AS "event_type!", node_id, node_name, node_type, status, duration,
                  CASE WHEN 'context' = ANY($18) THEN context::text END AS "context: Text",
                  CASE WHEN 'result' = ANY($18) THEN result::text END AS "result: Text",
                  CASE WHEN 'meta' = ANY($18) THEN meta::text END AS "meta: Text",
                  CASE WHEN 'error' = ANY($18) THEN error END AS error,
                  CASE WHEN 'stack_trace' = ANY($18) THEN stack_trace END AS stack_trace,
                  tenant_id AS "tenant_id!", organization_id AS "organization_id!",
                  tx_id::text AS "transaction!", is_in_next_batch AS "is_in_next_batch!"
           FROM (
               SELECT page.* FROM unnest($11::bigint[]) AS log (id)
               CROSS JOIN LATERAL (
                   (SELECT false AS is_in_next_batch, event.* FROM noetl.event
                    WHERE execution_id = log.id AND tx_id >= $12::text::xid8
                      AND (tx_id, event_id) > ($12::text::xid8, $13::bigint)
                      AND pg_visible_in_snapshot(tx_id, $15::text::pg_snapshot)
                      AND NOT pg_visible_in_snapshot(tx_id, $14::text::pg_snapshot) AND "#,
        [
            r#"     ORDER BY tx_id, event_id LIMIT $17)
                   UNION ALL
                   (SELECT true, event.* FROM noetl.event
                    WHERE execution_id = log.id AND tx_id >= pg_snapshot_xmin($15::text::pg_snapshot)
                      AND pg_visible_in_snapshot(tx_id, $16::text::pg_snapshot)
                      AND NOT pg_visible_in_snapshot(tx_id, $15::text::pg_snapshot) AND "#,
            r#"     ORDER BY tx_id, event_id LIMIT $17)
                   ORDER BY is_in_next_batch, tx_id, event_id LIMIT $17
               ) AS page
               ORDER BY execution_id, is_in_next_batch, tx_id, event_id OFFSET 0
           ) AS page"#
        ],
        &wanted_logs(executions, filter),
        after.tx_id.to_string(),
        after.event_id,
        after.done.to_string(),
        after.target.to_string(),
        now.to_string(),
        limit,
        columns.names(),
    );
    let arrived = shard.run(rows.fetch_all(shard.pool())).await?.into_iter().map(|row| {
        let tx_id = row.transaction.parse().map_err(|_| shard.corrupt("an invalid transaction id"))?;
        let event = EventRow {
            execution_id: row.execution_id,
            event_id: row.event_id,
            catalog_id: row.catalog_id,
            parent_event_id: row.parent_event_id,
            parent_execution_id: row.parent_execution_id,
            created_at: row.created_at,
            event_type: row.event_type,
            node_id: row.node_id,
            node_name: row.node_name,
            node_type: row.node_type,
            status: row.status,
            duration: row.duration,
            context: row.context,
            result: row.result,
            meta: row.meta,
            error: row.error,
            stack_trace: row.stack_trace,
            tenant_id: row.tenant_id,
            organization_id: row.organization_id,
        };
        Ok(Arrived { event: event.into(), tx_id, is_in_next_batch: row.is_in_next_batch })
    });
    arrived.collect()
}

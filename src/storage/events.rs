//! Reading the event log. Appending is [`super::log`]'s and [`super::executions`]'.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::error::StorageError;
use super::pools::Database;
use crate::domain::event::{Event, EventFilter};
use crate::domain::ids::Id;
use crate::domain::page::IdRange;

/// A row as it is read; [`Event`] is what it means.
pub(super) struct EventRow {
    pub(super) execution_id: i64,
    pub(super) event_id: i64,
    pub(super) catalog_id: i64,
    pub(super) parent_event_id: Option<i64>,
    pub(super) parent_execution_id: Option<i64>,
    pub(super) created_at: DateTime<Utc>,
    pub(super) event_type: String,
    pub(super) node_id: Option<String>,
    pub(super) node_name: Option<String>,
    pub(super) node_type: Option<String>,
    pub(super) status: Option<String>,
    pub(super) duration: Option<f64>,
    pub(super) context: Option<Value>,
    pub(super) result: Option<Value>,
    pub(super) meta: Option<Value>,
    pub(super) error: Option<String>,
    pub(super) stack_trace: Option<String>,
    pub(super) tenant_id: String,
    pub(super) organization_id: String,
}

impl From<EventRow> for Event {
    fn from(row: EventRow) -> Self {
        Self {
            execution_id: Id::new(row.execution_id),
            event_id: Id::new(row.event_id),
            catalog_id: Id::new(row.catalog_id),
            parent_event_id: row.parent_event_id.map(Id::new),
            parent_execution_id: row.parent_execution_id.map(Id::new),
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
        }
    }
}

/// One event.
pub async fn get(shard: &Database, execution: Id, event: Id) -> Result<Option<Event>, StorageError> {
    let row = sqlx::query_as!(
        EventRow,
        r#"SELECT execution_id, event_id, catalog_id, parent_event_id, parent_execution_id,
                  created_at AT TIME ZONE 'UTC' AS "created_at!", coalesce(event_type, '') AS "event_type!",
                  node_id, node_name, node_type, status, duration, context, result, meta, error, stack_trace,
                  tenant_id, organization_id
           FROM noetl.event WHERE execution_id = $1 AND event_id = $2"#,
        execution.get(),
        event.get(),
    );
    let row = shard.run(row.fetch_optional(shard.pool())).await?;
    Ok(row.map(Event::from))
}

/// A page's candidates of each of these logs, read in the range's direction, grouped by log.
pub async fn list(
    shard: &Database,
    executions: &[i64],
    filter: &EventFilter,
    range: IdRange,
) -> Result<Vec<Event>, StorageError> {
    let wanted = |id: &&i64| filter.execution_ids.as_ref().is_none_or(|ids| ids.contains(&Id::new(**id)));
    let executions: Vec<i64> = executions.iter().filter(wanted).copied().collect();
    let type_patterns = filter.type_patterns();
    macro_rules! listed {
        ($order:literal) => {
            sqlx::query_as!(
                EventRow,
                r#"SELECT execution_id, event_id, catalog_id, parent_event_id, parent_execution_id,
                          created_at AT TIME ZONE 'UTC' AS "created_at!", coalesce(event_type, '') AS "event_type!",
                          node_id, node_name, node_type, status, duration, context, result, meta, error, stack_trace,
                          tenant_id, organization_id
                   FROM unnest($1::bigint[]) AS log (id)
                   CROSS JOIN LATERAL (
                       SELECT * FROM noetl.event
                       WHERE execution_id = log.id AND event_id > $2 AND ($3::bigint IS NULL OR event_id < $3)
                         AND ($4::text[] IS NULL OR event_type LIKE ANY($4))
                         AND ($5::text[] IS NULL OR node_name = ANY($5))
                         AND ($6::text[] IS NULL OR status = ANY($6))
                         AND ($7::bigint IS NULL OR parent_execution_id = $7)
                       ORDER BY "# + $order + " LIMIT $8
                   ) AS page
                   ORDER BY execution_id, " + $order,
                &executions,
                range.above,
                range.below,
                type_patterns.as_deref(),
                filter.node_names.as_deref(),
                filter.statuses.as_deref(),
                filter.parent_execution_id.map(Id::get),
                range.limit,
            )
            .fetch_all(shard.pool())
        };
    }
    let rows = if range.descending {
        shard.run(listed!("event_id DESC")).await?
    } else {
        shard.run(listed!("event_id")).await?
    };
    Ok(rows.into_iter().map(Event::from).collect())
}

/// What the first landmark of a log says: what kind of log it is, its catalog entry, its start.
#[derive(Debug, Clone)]
pub struct LogHead {
    /// Whose log.
    pub execution_id: i64,
    /// `subscription.registered` or `playbook_started`.
    pub event_type: String,
    /// The entry that it runs.
    pub catalog_id: i64,
    /// The started event's context: the workload is in it.
    pub context: Option<Value>,
    /// W3C trace context of the started event.
    pub trace: Option<Value>,
}

/// The heads of these logs, in no order; a log without a landmark is left out.
pub async fn heads(shard: &Database, executions: &[i64]) -> Result<Vec<LogHead>, StorageError> {
    let rows = sqlx::query_as!(
        LogHead,
        r#"SELECT DISTINCT ON (execution_id) execution_id, event_type AS "event_type!", catalog_id, context,
                  meta -> 'trace' AS trace
           FROM noetl.event
           WHERE execution_id = ANY($1) AND event_type IN ('subscription.registered', 'playbook_started')
           ORDER BY execution_id, event_id"#,
        executions,
    );
    shard.run(rows.fetch_all(shard.pool())).await
}

/// The latest ending event of each of these logs, in no order; a log that has none is left out.
pub async fn ends(shard: &Database, executions: &[i64]) -> Result<Vec<Event>, StorageError> {
    let rows = sqlx::query_as!(
        EventRow,
        r#"SELECT DISTINCT ON (execution_id) execution_id, event_id, catalog_id, parent_event_id, parent_execution_id,
                  created_at AT TIME ZONE 'UTC' AS "created_at!", coalesce(event_type, '') AS "event_type!",
                  node_id, node_name, node_type, status, duration, context, result, meta, error, stack_trace,
                  tenant_id, organization_id
           FROM noetl.event
           WHERE execution_id = ANY($1) AND event_type IN (
               'playbook_completed', 'playbook.completed', 'playbook_failed', 'playbook.failed', 'playbook.cancelled')
           ORDER BY execution_id, event_id DESC"#,
        executions,
    );
    let rows = shard.run(rows.fetch_all(shard.pool())).await?;
    Ok(rows.into_iter().map(Event::from).collect())
}

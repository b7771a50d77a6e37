//! Inserting events that were made elsewhere: set-based and idempotent. What this server itself appends to a log goes
//! through [`super::log`].

use chrono::{DateTime, Utc};

use super::error::StorageError;
use super::pools::Database;
use crate::domain::ids::Id;

/// An event as a worker made it, within all bounds. JSON comes as its text.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// Whose log.
    pub execution_id: Id,
    /// Made by the worker.
    pub event_id: Id,
    /// Absent: the execution's, where that is known, else 0.
    pub catalog_id: Option<Id>,
    /// The event that caused this one.
    pub parent_event_id: Option<Id>,
    /// Absent: the execution's, where that is known.
    pub parent_execution_id: Option<Id>,
    /// Absent: the database's time.
    pub created_at: Option<DateTime<Utc>>,
    /// What happened.
    pub event_type: String,
    /// The node that it happened at.
    pub node_id: Option<String>,
    /// The node's name.
    pub node_name: Option<String>,
    /// The node's kind.
    pub node_type: Option<String>,
    /// The state after it.
    pub status: Option<String>,
    /// Seconds.
    pub duration: Option<f64>,
    /// What it was given.
    pub context: Option<String>,
    /// What it gave.
    pub result: Option<String>,
    /// About the event itself.
    pub meta: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Where it went wrong.
    pub stack_trace: Option<String>,
}

/// Inserts events of one shard, all in one statement; known ones are left as they are. Answers how many it inserted.
///
/// Rows go in by (execution id, event id): two statements that hold some of the same ids wait for one another in one
/// order, and don't deadlock.
#[tracing::instrument(
    level = "debug", name = "sql.ingest.insert", skip_all,
    fields(database = %shard.name(), count = events.len())
)]
pub async fn insert(shard: &Database, events: &[NewEvent]) -> Result<u64, StorageError> {
    let ids = |of: fn(&NewEvent) -> Option<Id>| -> Vec<Option<i64>> { column(events, |one| of(one).map(Id::get)) };
    let statement = sqlx::query!(
        "INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_event_id, parent_execution_id, created_at,
                                  event_type, node_id, node_name, node_type, status, duration, context, result, meta,
                                  error, stack_trace)
         SELECT t.execution_id, t.event_id, coalesce(t.catalog_id, execution.catalog_id, 0), t.parent_event_id,
                coalesce(t.parent_execution_id, execution.parent_execution_id),
                coalesce(t.created_at, now()) AT TIME ZONE 'UTC', t.event_type, t.node_id, t.node_name, t.node_type,
                t.status, t.duration, t.context::jsonb, t.result::jsonb, t.meta::jsonb, t.error, t.stack_trace
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[],
                     $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::float8[], $13::text[],
                     $14::text[], $15::text[], $16::text[], $17::text[])
             AS t (execution_id, event_id, catalog_id, parent_event_id, parent_execution_id, created_at, event_type,
                   node_id, node_name, node_type, status, duration, context, result, meta, error, stack_trace)
         LEFT JOIN noetl.execution USING (execution_id)
         ORDER BY t.execution_id, t.event_id
         ON CONFLICT (execution_id, event_id) DO NOTHING",
        &column(events, |one| one.execution_id.get()),
        &column(events, |one| one.event_id.get()),
        &ids(|one| one.catalog_id) as &[Option<i64>],
        &ids(|one| one.parent_event_id) as &[Option<i64>],
        &ids(|one| one.parent_execution_id) as &[Option<i64>],
        &column(events, |one| one.created_at) as &[Option<DateTime<Utc>>],
        &column(events, |one| one.event_type.as_str()) as &[&str],
        &column(events, |one| one.node_id.as_deref()) as &[Option<&str>],
        &column(events, |one| one.node_name.as_deref()) as &[Option<&str>],
        &column(events, |one| one.node_type.as_deref()) as &[Option<&str>],
        &column(events, |one| one.status.as_deref()) as &[Option<&str>],
        &column(events, |one| one.duration) as &[Option<f64>],
        &column(events, |one| one.context.as_deref()) as &[Option<&str>],
        &column(events, |one| one.result.as_deref()) as &[Option<&str>],
        &column(events, |one| one.meta.as_deref()) as &[Option<&str>],
        &column(events, |one| one.error.as_deref()) as &[Option<&str>],
        &column(events, |one| one.stack_trace.as_deref()) as &[Option<&str>],
    );
    Ok(shard.run(statement.execute(shard.pool())).await?.rows_affected())
}

fn column<'a, T>(events: &'a [NewEvent], of: impl Fn(&'a NewEvent) -> T) -> Vec<T> {
    events.iter().map(of).collect()
}

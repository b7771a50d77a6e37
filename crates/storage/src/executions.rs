//! Executions: their creation, their rows in the read model, and their end. The lists are in [`super::execution_lists`].

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{Executor, Postgres};

use super::durability;
use super::error::StorageError;
use super::ingest::{BEGINS_AFTER, LOCKED_LOGS};
use super::log::{self, LockedLog};
use super::pools::Database;
use super::snapshots::Projected;
use super::view::View;
use noetl_domain::execution::{Creation, Status, ended_by};
use noetl_domain::execution_order::ExecutionOrder;
use noetl_domain::ids::{EPOCH_UNIX_MS, Id};
use noetl_domain::labels::Labels;
use noetl_domain::list_position::ListPosition;
use noetl_domain::tenant::Scope;
use plain_json::Text;

/// Row of the read model for lists.
#[derive(Debug, Clone)]
pub struct ExecutionRow {
    /// Execution id, a snowflake.
    pub execution_id: i64,
    /// Catalog entry that it runs.
    pub catalog_id: i64,
    /// The subscription or execution that started it.
    pub parent_execution_id: Option<i64>,
    /// Status as stored; [`Status::from_stored`] parses it.
    pub status: String,
    /// Path of the catalog entry; `None` on rows that NoETL's own server wrote.
    pub path: Option<String>,
    /// Start time.
    pub start_time: Option<DateTime<Utc>>,
    /// End time; `None` while it is running.
    pub end_time: Option<DateTime<Utc>>,
    /// Last event that the row includes, by id; `None` on rows that other programs wrote.
    pub last_event_id: Option<i64>,
    /// Tenant.
    pub tenant_id: String,
    /// Organization.
    pub organization_id: String,
    /// Pool of the workers that the started event names.
    pub execution_pool: Option<String>,
    /// Execution of which this one is a rerun.
    pub rerun_of: Option<i64>,
    /// Number of failed steps; `None` on rows that other programs wrote.
    pub failed_steps: Option<i32>,
    /// Labels as JSON; `None`: there are none.
    pub labels: Option<Text>,
}

impl ExecutionRow {
    /// Returns the position in lists that are ordered by start time.
    #[must_use]
    pub fn position(&self) -> ListPosition {
        ListPosition::new(self.start_time, self.execution_id)
    }

    /// Returns the position in lists with an order.
    #[must_use]
    pub fn position_in(&self, order: ExecutionOrder) -> ListPosition {
        order.position(self.start_time, self.end_time, self.execution_id)
    }

    /// Returns the labels.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.labels.as_ref().map(|labels| Labels::read(&labels.read())).unwrap_or_default()
    }

    /// Returns the row with the status, the end time and the number of failed steps of a state.
    #[must_use]
    pub fn in_state(self, projected: &Projected) -> Self {
        let state = &projected.projection.state;
        let (status, end_time) = (state.status().as_str().to_owned(), state.end().map(|end| end.at));
        Self { status, end_time, failed_steps: Some(state.failed_steps()), ..self }
    }

    /// Returns the row of an execution that was created.
    #[must_use]
    pub fn created(creation: &Creation, start_time: DateTime<Utc>) -> Self {
        Self {
            execution_id: creation.execution_id.get(),
            catalog_id: creation.catalog_id.get(),
            parent_execution_id: creation.parent_execution_id.map(Id::get),
            status: Status::Pending.as_str().to_owned(),
            path: Some(creation.path.clone()),
            start_time: Some(start_time),
            end_time: None,
            last_event_id: Some(creation.event_id.get()),
            tenant_id: creation.tenancy.tenant_id.clone(),
            organization_id: creation.tenancy.organization_id.clone(),
            execution_pool: creation.pool.clone(),
            rerun_of: creation.rerun_of.map(Id::get),
            failed_steps: Some(0),
            labels: stored_labels(&creation.labels),
        }
    }

    /// Returns the row of an execution whose log was folded, as an advance would store it. `None` if the log is empty
    /// or not an execution's.
    #[must_use]
    pub fn of(projected: &Projected) -> Option<Self> {
        let (projection, state) = (&projected.projection, &projected.projection.state);
        projection.is_execution().then(|| {
            let started = state.started.get();
            Self {
                execution_id: projected.execution_id.get(),
                catalog_id: started.map_or(0, |start| start.catalog_id.get()),
                parent_execution_id: started.and_then(|start| start.parent_execution_id).map(Id::get),
                status: state.status().as_str().to_owned(),
                path: started.and_then(|start| start.path.clone()),
                start_time: started.map(|start| start.at),
                end_time: state.end().map(|end| end.at),
                last_event_id: projection.version.map(Id::get),
                tenant_id: projected.tenancy.tenant_id.clone(),
                organization_id: projected.tenancy.organization_id.clone(),
                execution_pool: started.and_then(|start| start.execution_pool.clone()),
                rerun_of: started.and_then(|start| start.rerun_of).map(Id::get),
                failed_steps: Some(state.failed_steps()),
                labels: stored_labels(projected.labels()),
            }
        })
    }
}

/// Returns labels as the rows have them.
fn stored_labels(labels: &Labels) -> Option<Text> {
    labels.to_stored().map(|labels| Text::or_error_value(&labels.to_string()))
}

/// An execution that was created.
#[derive(Debug, Clone, Copy)]
pub struct Created {
    /// Id of the execution.
    pub execution_id: i64,
    /// Start time.
    pub start_time: DateTime<Utc>,
}

/// Age of an id up to which no other writer can have begun its log. The other half of [`BEGINS_AFTER`] is for slow
/// statements.
const NEW_FOR: Duration = Duration::from_secs(BEGINS_AFTER.as_secs() / 2);

/// Result of the creation of several executions.
#[derive(Debug)]
pub struct Creations {
    /// The executions that were created, in no order.
    pub created: Vec<Created>,
    /// Ids under which there is something else. Nothing was created for them.
    pub taken: Vec<i64>,
}

/// Creates executions of one shard: for each the execution row, the started event and the outbox row. Idempotent: an
/// execution that exists with the same started event, or the same dedup key, is skipped. The ids must be distinct.
///
/// One statement creates the executions with new ids; `now_ms` is the caller's time in milliseconds since
/// 2024-01-01T00:00:00Z. The others, which finish the claims of crashed servers for example, are created under the locks
/// of their logs, unless the log has events of another tenant.
#[tracing::instrument(
    level = "debug", name = "sql.executions.create", skip_all,
    fields(database = %shard.name(), count = creations.len(),
           first = creations.first().map(|one| tracing::field::display(one.execution_id)))
)]
pub async fn create(shard: &Database, creations: &[&Creation], now_ms: u64) -> Result<Creations, StorageError> {
    let new_from = now_ms.saturating_sub(NEW_FOR.as_secs() * 1000);
    let (new, mut left): (Vec<&Creation>, Vec<&Creation>) =
        creations.iter().copied().partition(|one| one.execution_id.millis() >= new_from);
    let mut done = Creations { created: Vec::new(), taken: Vec::new() };
    if !new.is_empty() {
        // The clock of the shard decides too.
        done.created = shard.run(create_rows(shard.planned_for(new.len()), &new, Ids::New)).await?;
    }
    if done.created.len() < new.len() {
        let created: BTreeSet<i64> = done.created.iter().map(|one| one.execution_id).collect();
        left.extend(new.into_iter().filter(|one| !created.contains(&one.execution_id.get())));
    }
    if left.is_empty() {
        return Ok(done);
    }
    for part in left.chunks(LOCKED_LOGS) {
        let work = async {
            let ids = column(part, |one| one.execution_id.get());
            let mut tx = shard.pool().begin().await?;
            log::lock_each(&mut *tx, &ids).await?;
            let foreign = with_events_of_others(&mut *tx, part).await?;
            let free: Vec<&Creation> =
                part.iter().copied().filter(|one| !foreign.contains(&one.execution_id.get())).collect();
            let created = create_rows(&mut *tx, &free, Ids::Locked).await?;
            let existing = existing(&mut *tx, part).await?;
            tx.commit().await?;
            Ok((ids, created, existing))
        };
        let (ids, created, existing) = shard.run(work).await?;
        done.taken.extend(ids.into_iter().filter(|id| !existing.contains(id)));
        done.created.extend(created);
    }
    durability::confirm(shard).await?;
    Ok(done)
}

/// Ids of executions to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// Ids that were made less than [`NEW_FOR`] ago. Others are left out.
    New,
    /// Any ids, whose logs are locked.
    Locked,
}

async fn create_rows(
    executor: impl Executor<'_, Database = Postgres>,
    creations: &[&Creation],
    ids_are: Ids,
) -> sqlx::Result<Vec<Created>> {
    let statement = sqlx::query_as!(
        Created,
        r#"WITH input AS (
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::jsonb[],
                                  $7::jsonb[], $8::text[], $9::jsonb[], $10::text[], $11::text[], $14::text[],
                                  $15::bigint[], $16::jsonb[]) WITH ORDINALITY
                 AS t (execution_id, event_id, catalog_id, parent, path, context, meta, subject, command, tenant_id,
                       organization_id, pool, rerun_of, labels, position)
         ), created AS (
             INSERT INTO noetl.execution (execution_id, catalog_id, parent_execution_id, status, path,
                                          last_event_type, last_node_name, last_event_id, start_time, tenant_id,
                                          organization_id, execution_pool, rerun_of, failed_steps, labels)
             SELECT execution_id, catalog_id, parent, 'PENDING', path, 'playbook_started', path, event_id, now(),
                    tenant_id, organization_id, pool, rerun_of, 0, labels
             FROM input
             WHERE $12 OR execution_id >> 22 >= (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $13
             ON CONFLICT (execution_id) DO NOTHING
             RETURNING execution_id, start_time
         ), started AS (
             INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_execution_id, event_type, node_id,
                                      node_name, node_type, status, context, meta, tenant_id, organization_id)
             SELECT execution_id, event_id, catalog_id, parent, 'playbook_started', 'playbook', path, 'execution',
                    'STARTED', context, meta, tenant_id, organization_id
             FROM input JOIN created USING (execution_id)
         ), notified AS (
             INSERT INTO noetl.outbox (execution_id, event_id, subject, payload, payload_codec, tenant_id, organization_id)
             SELECT execution_id, event_id, subject, command, 'json', tenant_id, organization_id
             FROM input JOIN created USING (execution_id) ORDER BY position
         )
         SELECT execution_id, start_time AS "start_time!" FROM created"#,
        &column(creations, |one| one.execution_id.get()),
        &column(creations, |one| one.event_id.get()),
        &column(creations, |one| one.catalog_id.get()),
        &column(creations, |one| one.parent_execution_id.map(Id::get)) as &[Option<i64>],
        &column(creations, |one| one.path.clone()),
        &column(creations, Creation::context),
        &column(creations, Creation::meta),
        &column(creations, Creation::notification_subject),
        &column(creations, Creation::command),
        &column(creations, |one| one.tenancy.tenant_id.clone()),
        &column(creations, |one| one.tenancy.organization_id.clone()),
        ids_are == Ids::Locked,
        // Milliseconds from the Unix epoch to the start of ids, and for which an id counts as new.
        (EPOCH_UNIX_MS + u64::try_from(NEW_FOR.as_millis()).unwrap_or(u64::MAX)).cast_signed(),
        &column(creations, |one| one.pool.clone()) as &[Option<String>],
        &column(creations, |one| one.rerun_of.map(Id::get)) as &[Option<i64>],
        &column(creations, |one| one.labels.to_stored()) as &[Option<Value>],
    );
    statement.fetch_all(executor).await
}

/// Returns a value of each execution.
fn column<'a, T>(creations: &[&'a Creation], of: impl Fn(&'a Creation) -> T) -> Vec<T> {
    creations.iter().copied().map(of).collect()
}

/// Returns the ids of those executions whose logs have events of another tenant. This is a statement of its own, because
/// one that names the table of events opens all its partitions.
async fn with_events_of_others(
    executor: impl Executor<'_, Database = Postgres>,
    creations: &[&Creation],
) -> sqlx::Result<Vec<i64>> {
    let found = sqlx::query_scalar!(
        r#"SELECT execution_id AS "execution_id!" FROM unnest($1::bigint[], $2::text[]) AS given (execution_id, tenant_id)
           WHERE EXISTS (SELECT FROM noetl.event
                         WHERE event.execution_id = given.execution_id AND event.tenant_id <> given.tenant_id)"#,
        &column(creations, |one| one.execution_id.get()),
        &column(creations, |one| one.tenancy.tenant_id.as_str()) as &[&str],
    );
    found.fetch_all(executor).await
}

/// Returns which of these executions exist.
async fn existing(executor: impl Executor<'_, Database = Postgres>, creations: &[&Creation]) -> sqlx::Result<Vec<i64>> {
    let found = sqlx::query_scalar!(
        r#"SELECT DISTINCT execution_id AS "execution_id!"
           FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::jsonb[]) AS given (execution_id, event_id, tenant_id, meta)
           JOIN noetl.event AS started USING (execution_id, tenant_id)
           WHERE started.event_type = 'playbook_started'
             AND (started.event_id = given.event_id OR started.meta #>> '{dedup,key}' = given.meta #>> '{dedup,key}')"#,
        &column(creations, |one| one.execution_id.get()),
        &column(creations, |one| one.event_id.get()),
        &column(creations, |one| one.tenancy.tenant_id.as_str()) as &[&str],
        &column(creations, Creation::meta),
    );
    found.fetch_all(executor).await
}

/// Returns the executions in the scope with these ids, in no order.
#[tracing::instrument(
    level = "debug", name = "sql.executions.by_ids", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first())
)]
pub async fn by_ids(shard: &Database, scope: &Scope, ids: &[i64]) -> Result<Vec<ExecutionRow>, StorageError> {
    let rows = sqlx::query_as!(
        ExecutionRow,
        r#"SELECT execution_id, catalog_id, parent_execution_id, status, path, last_event_id, tenant_id, organization_id,
                  execution_pool, rerun_of, failed_steps, labels::text AS "labels: Text",
                  CASE WHEN start_time IS NOT NULL THEN greatest(least(start_time, '9999-12-31'), '0001-01-01') END AS start_time,
                  CASE WHEN end_time IS NOT NULL THEN greatest(least(end_time, '9999-12-31'), '0001-01-01') END AS end_time
         FROM noetl.execution WHERE execution_id = ANY($1) AND ($2::text IS NULL OR tenant_id = $2)"#,
        ids,
        scope.tenant(),
    );
    shard.run(rows.fetch_all(shard.planned_for(ids.len()))).await
}

/// Number of executions of a parent that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenChildren {
    /// The subscription or execution that started them.
    pub parent: i64,
    /// Their number.
    pub open: i64,
}

/// Returns the numbers of executions that have not ended, for each parent. Of the executions that have not ended, up to
/// 100,000 are read.
#[tracing::instrument(level = "debug", name = "sql.executions.open_by_parent", skip_all, fields(database = %shard.name()))]
pub async fn open_by_parent(shard: View<'_>) -> Result<Vec<OpenChildren>, StorageError> {
    let open = stored_names(&[Status::Pending, Status::Running]);
    let rows = sqlx::query_as!(
        OpenChildren,
        r#"SELECT parent_execution_id AS "parent!", count(*) AS "open!" FROM (
               SELECT parent_execution_id FROM noetl.execution
               WHERE upper(status) = ANY($1) AND CASE WHEN $2::bytea IS NULL THEN true ELSE get_bit($2, noetl.bucket_of(execution_id)) = 1 END
               LIMIT 100000
           ) AS open WHERE parent_execution_id IS NOT NULL GROUP BY parent_execution_id"#,
        &open,
        shard.held(),
    );
    shard.run(rows.fetch_all(shard.pool())).await
}

/// Returns the names under which rows store these statuses.
pub(super) fn stored_names(wanted: &[Status]) -> Vec<String> {
    wanted.iter().flat_map(|status| status.stored_names()).map(|name| (*name).to_owned()).collect()
}

impl LockedLog<'_> {
    /// Returns the status of this log's execution, read under the lock. An ending event in the log takes precedence
    /// over the read model, which may lag, and over failed events. `Ok(None)`: the execution does not exist.
    #[tracing::instrument(
        level = "debug", name = "sql.executions.execution_status", skip_all,
        fields(database = %self.shard.name(), execution = %self.execution)
    )]
    pub async fn execution_status(&mut self) -> Result<Option<Status>, StorageError> {
        let row = sqlx::query!(
            "SELECT status,
                    (SELECT event_type FROM noetl.event
                     WHERE execution_id = $1 AND event_type IN (
                         'playbook_completed', 'playbook.completed', 'workflow.completed', 'playbook_failed', 'playbook.failed',
                         'workflow.failed', 'playbook.cancelled', 'playbook_cancelled', 'execution.cancelled')
                     ORDER BY event_id DESC LIMIT 1) AS ended_by
             FROM noetl.execution WHERE execution_id = $1",
            self.execution.get(),
        );
        let row = self.shard.run(row.fetch_optional(&mut *self.tx)).await?;
        Ok(row
            .map(|row| row.ended_by.as_deref().and_then(ended_by).unwrap_or_else(|| Status::from_stored(&row.status))))
    }

    /// Updates the read model after the cancellation `event` was appended. The end has the event's time. If failed events
    /// decide the status ([`noetl_domain::execution::StatusSource`]), the next advance stores it.
    #[tracing::instrument(
        level = "debug", name = "sql.executions.mark_cancelled", skip_all,
        fields(database = %self.shard.name(), execution = %self.execution, event = %event)
    )]
    pub async fn mark_cancelled(&mut self, event: Id, reason: Option<&str>) -> Result<(), StorageError> {
        let update = sqlx::query!(
            "UPDATE noetl.execution
             SET status = 'CANCELLED', last_event_type = 'playbook.cancelled', last_event_id = $2,
                 end_time = (SELECT created_at AT TIME ZONE 'UTC' FROM noetl.event
                             WHERE execution_id = $1 AND event_id = $2),
                 error = coalesce($3, error)
             WHERE execution_id = $1",
            self.execution.get(),
            event.get(),
            reason,
        );
        let touched = self.shard.run(update.execute(&mut *self.tx)).await?.rows_affected();
        if touched == 1 { Ok(()) } else { Err(self.shard.corrupt(format!("no execution {}", self.execution))) }
    }
}

//! Inserts of worker events: set-based and idempotent. Events of this server are appended by [`super::log`] and
//! [`super::executions`].

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, Executor, Postgres};

use super::error::StorageError;
use super::lock_wait::LockWait;
use super::log;
use super::outbox::Ref;
use super::pools::Database;
use noetl_domain::ids::{EPOCH_UNIX_MS, Id};
use noetl_domain::tenant::Scope;
use plain_json::RawJson;

/// A validated event of a worker. Its JSON is the text that the worker sent, and shares the memory of its request.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Execution to whose log the event belongs.
    pub execution_id: Id,
    /// Event id, made by the worker. An event with a key gets its id before it is inserted.
    pub event_id: Id,
    /// Key of an event whose id this server gives. It is unique in its log.
    pub key: Option<String>,
    /// Catalog entry; default: the execution's if it is known, else 0.
    pub catalog_id: Option<Id>,
    /// The event that caused this one.
    pub parent_event_id: Option<Id>,
    /// Execution that started this one; default: the stored parent if the execution is known.
    pub parent_execution_id: Option<Id>,
    /// Time of the event; default: the database's time.
    pub created_at: Option<DateTime<Utc>>,
    /// Type of the event, such as `command.completed`.
    pub event_type: String,
    /// Id of the node at which it occurred.
    pub node_id: Option<String>,
    /// Name of the node.
    pub node_name: Option<String>,
    /// Type of the node.
    pub node_type: Option<String>,
    /// Status after the event.
    pub status: Option<String>,
    /// Duration in seconds.
    pub duration: Option<f64>,
    /// Input, as JSON.
    pub context: Option<RawJson>,
    /// Output, as JSON.
    pub result: Option<RawJson>,
    /// Metadata of the event, as JSON.
    pub meta: Option<RawJson>,
    /// Error message.
    pub error: Option<String>,
    /// Stack trace of the error.
    pub stack_trace: Option<String>,
    /// Tenant; default: the scope's, else that of the execution if it is known, else `default`.
    pub tenant_id: Option<String>,
    /// Organization; default: that of the execution if it is known and has the event's tenant, else `default`.
    pub organization_id: Option<String>,
    /// JSON object with the values of [`OtherColumns`].
    pub others: Option<RawJson>,
    /// Claim without which the event must not be inserted: that of an outbox row of its execution.
    pub claim: Option<Ref>,
}

impl NewEvent {
    /// Returns the approximate size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let texts = [&self.error, &self.stack_trace, &self.key].into_iter().flatten().map(String::len);
        let json = [&self.context, &self.result, &self.meta, &self.others].into_iter().flatten().map(|json| json.len());
        size_of::<Self>() + texts.chain(json).sum::<usize>()
    }
}

/// Columns of the table that this product does not know, such as `worker_id` on a table that NoETL made.
#[derive(Debug, Clone, Default)]
pub struct OtherColumns {
    /// Names of the columns.
    pub names: BTreeSet<String>,
    /// Statement that sets the columns of rows that the same transaction inserted. A column without a value keeps its
    /// default.
    update: String,
    /// Statement that returns the columns in which the given rows differ from the stored ones. A column without a value
    /// is not compared.
    pub(super) compare: String,
}

/// Returns the other columns of a shard's table.
#[tracing::instrument(level = "debug", name = "sql.ingest.other_columns", skip_all, fields(database = %shard.name()))]
pub async fn other_columns(shard: &Database) -> Result<OtherColumns, StorageError> {
    let columns = sqlx::query!(
        r#"SELECT coalesce(array_agg(attname::text), '{}') AS "names!",
                  format('UPDATE noetl.event SET %s
                          FROM (SELECT execution_id, event_id, jsonb_populate_record(NULL::noetl.event, value::jsonb) AS value
                                FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS t (execution_id, event_id, value)) AS given
                          WHERE event.execution_id = given.execution_id AND event.event_id = given.event_id
                            AND event.tx_id = pg_current_xact_id()',
                         string_agg(format('%1$I = coalesce((given.value).%1$I, event.%1$I)', attname), ', ')) AS "update!",
                  format('SELECT given.position, array_remove(ARRAY[%s], NULL) AS fields
                          FROM (SELECT execution_id, event_id, position, jsonb_populate_record(NULL::noetl.event, value::jsonb) AS value
                                FROM unnest($1::bigint[], $2::bigint[], $3::text[]) WITH ORDINALITY
                                    AS t (execution_id, event_id, value, position)) AS given
                          CROSS JOIN LATERAL (SELECT * FROM noetl.event
                                              WHERE execution_id = given.execution_id AND event_id = given.event_id
                                              OFFSET 0) AS event',
                         string_agg(format('CASE WHEN (given.value).%1$I::text IS NOT NULL
                                                     AND (given.value).%1$I::text IS DISTINCT FROM event.%1$I::text
                                                THEN %1$L END', attname), ', ')) AS "compare!"
           FROM pg_attribute
           WHERE attrelid = 'noetl.event'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' AND attname <> ALL(
               ARRAY['execution_id', 'event_id', 'catalog_id', 'parent_event_id', 'parent_execution_id', 'created_at',
                     'event_type', 'node_id', 'node_name', 'node_type', 'status', 'duration', 'context', 'result', 'meta',
                     'error', 'stack_trace', 'tenant_id', 'organization_id', 'event_key', 'tx_id'])"#,
    );
    let columns = shard.run(columns.fetch_one(shard.pool())).await?;
    Ok(OtherColumns { names: columns.names.into_iter().collect(), update: columns.update, compare: columns.compare })
}

/// Writer of events, with its permissions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Writer {
    /// Tenants whose logs it may write to.
    pub scope: Scope,
    /// Whether it may begin any log. Another writer may begin a log only [`BEGINS_AFTER`] its id was made.
    pub imports: bool,
}

/// Time after which a writer may begin the log of an id. An execution that this server starts has its log by then, so an
/// event can't precede the start. [`super::executions::create`] relies on it.
pub const BEGINS_AFTER: Duration = Duration::from_mins(1);

/// Maximum number of logs that one transaction locks. The table of locks is shared by all sessions.
pub const LOCKED_LOGS: usize = 100;

/// Result of an insert.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inserted {
    /// Positions of the events that were inserted, counted from 1. The events that are neither here nor in `refused` were
    /// stored before, or have the id or the key of an earlier event of the list.
    pub positions: Vec<i64>,
    /// The events that the writer may not insert.
    pub refused: Vec<Refused>,
    /// The events with keys that were not inserted, because an id that one of them was given is not larger than those of
    /// its log.
    pub late: Vec<Late>,
}

/// An event with a key whose id must be larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// Position of the event in the list, counted from 1.
    pub position: i64,
    /// Largest event id of its log.
    pub log_end: Id,
}

/// Condition on the ids of events with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// An event is inserted only if it, and each other event with a key of the list and its log, has a larger id than
    /// its log. The others are returned as [`Inserted::late`].
    Ascending,
    /// No condition. The caller gave ids after the ends of the logs that an earlier statement returned.
    Any,
}

/// An event that its writer may not insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Position of the event in the list, counted from 1.
    pub position: i64,
    /// The reason.
    pub why: NotAllowed,
}

/// Reason that a writer may not insert an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAllowed {
    /// The event names a tenant that is not in the scope.
    NamesOtherTenant,
    /// The log belongs to a tenant that is not in the scope.
    LogOfOtherTenant,
    /// There is no such log, and the writer may not begin it.
    NoLog,
    /// The row of the event's claim was released, or another claim has taken it.
    StaleLease,
    /// The row of the event's claim belongs to another execution.
    OtherExecution,
}

/// Logs to which a statement writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// Logs that exist. The events of others are refused with [`NotAllowed::NoLog`].
    Existing,
    /// Also others, at most [`LOCKED_LOGS`], which the transaction locks.
    Locked,
}

/// Inserts the events of one shard that the writer may insert, in one statement. Events whose ids are stored are skipped, and
/// so is an event with the id of an earlier one of the list. For events with keys, the same holds for the keys.
///
/// Rows are inserted in the order of (execution id, key, event id), so concurrent statements with common ids or keys don't
/// deadlock: ids that are given to events with keys are in no other statement. The statement waits up to `lock_wait` for
/// another transaction that inserts an event with one of the ids or keys.
///
/// The rows of claims are locked until the transaction ends. So no other claim takes such a row between the check and the
/// commit, and no event of the holder before is committed after it.
#[tracing::instrument(
    level = "debug", name = "sql.ingest.insert", skip_all,
    fields(database = %shard.name(), count = events.len())
)]
pub async fn insert<E: Borrow<NewEvent> + Sync>(
    shard: &Database,
    writer: &Writer,
    events: &[E],
    columns: Option<&OtherColumns>,
    lock_wait: LockWait,
    logs: Logs,
    numbering: Numbering,
) -> Result<Inserted, StorageError> {
    let has_others = events.iter().any(|event| event.borrow().others.is_some());
    let columns = columns.filter(|_| has_others);
    if columns.is_none() && logs == Logs::Existing {
        return shard
            .run(insert_rows(shard.planned_for(events.len()), writer, events, lock_wait, logs, numbering))
            .await;
    }
    let work = async {
        let mut tx = shard.pool().begin().await?;
        if logs == Logs::Locked {
            log::lock_each(&mut *tx, &column(events, |one| one.execution_id.get())).await?;
        }
        let inserted = insert_rows(&mut *tx, writer, events, lock_wait, logs, numbering).await?;
        if let Some(columns) = columns {
            let index = |position: &i64| usize::try_from(position - 1).ok();
            let rows =
                inserted.positions.iter().filter_map(index).filter_map(|index| Some(events.get(index)?.borrow()));
            let with_others: Vec<&NewEvent> = rows.filter(|event| event.others.is_some()).collect();
            let update = sqlx::query(AssertSqlSafe(columns.update.clone()))
                .bind(column(&with_others, |event| event.execution_id.get()))
                .bind(column(&with_others, |event| event.event_id.get()))
                .bind(column(&with_others, |event| event.others.as_deref()));
            update.execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(inserted)
    };
    shard.run(work).await
}

#[expect(clippy::too_many_lines, reason = "one statement, and its columns")]
async fn insert_rows<E: Borrow<NewEvent>>(
    executor: impl Executor<'_, Database = Postgres>,
    writer: &Writer,
    events: &[E],
    lock_wait: LockWait,
    logs: Logs,
    numbering: Numbering,
) -> sqlx::Result<Inserted> {
    let ids = |of: fn(&NewEvent) -> Option<Id>| -> Vec<Option<i64>> { column(events, |one| of(one).map(Id::get)) };
    let statement = sqlx::query!(
        r#"WITH patience AS MATERIALIZED (
             -- The parts that wait for locks read it, so it is set before.
             SELECT set_config('lock_timeout', $21, true)
         ), event AS MATERIALIZED (
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $18::text[], $19::text[], $25::bigint[], $26::bigint[], $27::text[])
                 WITH ORDINALITY
                 AS t (execution_id, event_id, tenant_id, organization_id, claimed, token, key, position)
         ), held AS MATERIALIZED (
             -- A row that was settled under the claim is not taken by another one.
             SELECT claim.claimed, claim.token, row.execution_id AS of_execution
             FROM (SELECT DISTINCT claimed, token FROM patience CROSS JOIN event WHERE claimed IS NOT NULL
                   ORDER BY claimed, token) AS claim
             CROSS JOIN LATERAL (
                 SELECT execution_id FROM noetl.outbox
                 WHERE outbox_id = claim.claimed AND lease_token = claim.token AND status IN ('IN_FLIGHT', 'PUBLISHED')
                   AND ($20::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $20)
                 FOR SHARE
             ) AS row
         ), owner AS MATERIALIZED (
             -- A row with the default tenant may have been written before rows had one, or by another server.
             SELECT log.execution_id, listed.catalog_id AS listed_catalog, listed.parent_execution_id AS listed_parent,
                    coalesce(nullif(listed.tenant_id, 'default'), first.tenant_id, listed.tenant_id) AS owner_tenant,
                    coalesce(CASE WHEN listed.tenant_id <> 'default' THEN listed.organization_id END,
                             first.organization_id, listed.organization_id) AS owner_organization,
                    -- The end is read only for logs whose events with keys must come after it.
                    log.first_given, CASE WHEN log.first_given IS NOT NULL THEN noetl.log_end(log.execution_id) END AS log_end
             FROM (SELECT execution_id, min(event_id) FILTER (WHERE key IS NOT NULL AND $28) AS first_given
                   FROM event GROUP BY execution_id) AS log
             LEFT JOIN noetl.execution AS listed USING (execution_id)
             LEFT JOIN LATERAL noetl.log_owner(
                 CASE WHEN listed.tenant_id IS NULL OR listed.tenant_id = 'default' THEN log.execution_id END
             ) AS first ON true
         ), owned AS MATERIALIZED (
             SELECT position, execution_id, event_id, key, listed_catalog, listed_parent, tenant, log_end,
                    coalesce(organization_id, CASE WHEN owner_tenant = tenant THEN owner_organization END, 'default')
                        AS organization,
                    CASE WHEN event.claimed IS NOT NULL AND held.claimed IS NULL THEN 'stale'
                         WHEN event.claimed IS NOT NULL AND held.of_execution IS DISTINCT FROM execution_id THEN 'other'
                         WHEN tenant <> $20 THEN 'named' WHEN owner_tenant <> $20 THEN 'owned'
                         WHEN owner_tenant IS NOT NULL THEN CASE WHEN key IS NOT NULL AND log_end >= first_given THEN 'late' END
                         WHEN $22 AND ($23 OR execution_id >> 22 < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $24)
                         THEN NULL ELSE 'no log' END AS foreign_as
             FROM event JOIN owner USING (execution_id)
             LEFT JOIN held ON held.claimed = event.claimed AND held.token = event.token
             CROSS JOIN LATERAL (
                 SELECT coalesce(event.tenant_id, $20::text, owner.owner_tenant, 'default') AS tenant
             ) AS chosen
         ), inserted AS (
             INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_event_id, parent_execution_id,
                                      created_at, event_type, node_id, node_name, node_type, status, duration, context,
                                      result, meta, error, stack_trace, tenant_id, organization_id, event_key)
             SELECT t.execution_id, t.event_id, coalesce(t.catalog_id, owned.listed_catalog, 0), t.parent_event_id,
                    coalesce(t.parent_execution_id, owned.listed_parent),
                    coalesce(t.created_at, now()) AT TIME ZONE 'UTC', t.event_type, t.node_id, t.node_name, t.node_type,
                    t.status, t.duration, t.context::jsonb, t.result::jsonb, t.meta::jsonb, t.error, t.stack_trace,
                    owned.tenant, owned.organization, owned.key
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[],
                         $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::float8[], $13::text[],
                         $14::text[], $15::text[], $16::text[], $17::text[]) WITH ORDINALITY
                 AS t (execution_id, event_id, catalog_id, parent_event_id, parent_execution_id, created_at, event_type,
                       node_id, node_name, node_type, status, duration, context, result, meta, error, stack_trace,
                       position)
             JOIN owned USING (position)
             CROSS JOIN patience
             WHERE owned.foreign_as IS NULL
             ORDER BY t.execution_id, owned.key NULLS FIRST, t.event_id, position
             -- Of the id or of the key.
             ON CONFLICT DO NOTHING
             RETURNING event.execution_id, event.event_id
         ), landed AS (
             -- Of several events with one id, the first is inserted.
             SELECT min(position) AS position FROM inserted JOIN owned USING (execution_id, event_id)
             WHERE foreign_as IS NULL GROUP BY execution_id, event_id
         )
         SELECT (SELECT coalesce(array_agg(position), '{}') FROM landed) AS "inserted!",
                (SELECT coalesce(array_agg(position), '{}') FROM owned WHERE foreign_as = 'named') AS "named!",
                (SELECT coalesce(array_agg(position), '{}') FROM owned WHERE foreign_as = 'owned') AS "owned!",
                (SELECT coalesce(array_agg(position), '{}') FROM owned WHERE foreign_as = 'no log') AS "no_log!",
                (SELECT coalesce(array_agg(position), '{}') FROM owned WHERE foreign_as = 'stale') AS "stale!",
                (SELECT coalesce(array_agg(position), '{}') FROM owned WHERE foreign_as = 'other') AS "other!",
                (SELECT coalesce(array_agg(position ORDER BY position), '{}') FROM owned WHERE foreign_as = 'late') AS "late!",
                (SELECT coalesce(array_agg(log_end ORDER BY position), '{}') FROM owned WHERE foreign_as = 'late') AS "ends!""#,
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
        &column(events, |one| one.tenant_id.as_deref()) as &[Option<&str>],
        &column(events, |one| one.organization_id.as_deref()) as &[Option<&str>],
        writer.scope.tenant(),
        lock_wait.setting(),
        logs == Logs::Locked,
        writer.imports,
        // Milliseconds from the Unix epoch to the start of ids, and until a log may be begun.
        (EPOCH_UNIX_MS + u64::try_from(BEGINS_AFTER.as_millis()).unwrap_or(u64::MAX)).cast_signed(),
        &column(events, |one| one.claim.map(|claim| claim.outbox_id)) as &[Option<i64>],
        &column(events, |one| one.claim.map(|claim| claim.lease_token)) as &[Option<i64>],
        &column(events, |one| one.key.as_deref()) as &[Option<&str>],
        numbering == Numbering::Ascending,
    );
    let row = statement.fetch_one(executor).await?;
    let refused = |positions: Vec<i64>, why| positions.into_iter().map(move |position| Refused { position, why });
    let of_tenants =
        refused(row.named, NotAllowed::NamesOtherTenant).chain(refused(row.owned, NotAllowed::LogOfOtherTenant));
    let of_claims = refused(row.stale, NotAllowed::StaleLease).chain(refused(row.other, NotAllowed::OtherExecution));
    let refused = of_tenants.chain(refused(row.no_log, NotAllowed::NoLog)).chain(of_claims).collect();
    let late = row.late.into_iter().zip(row.ends);
    let late = late.map(|(position, log_end)| Late { position, log_end: Id::new(log_end) }).collect();
    Ok(Inserted { positions: row.inserted, refused, late })
}

/// Returns a value of each event.
pub(super) fn column<'a, E: Borrow<NewEvent>, T>(events: &'a [E], of: impl Fn(&'a NewEvent) -> T) -> Vec<T> {
    events.iter().map(|event| of(event.borrow())).collect()
}

//! Retrying and discarding rows by a filter. Each statement changes a limited number of rows, and writes an event about each to
//! the log of its execution.

use serde_json::Value;

use super::OutboxFilter;
use crate::error::StorageError;
use crate::view::View;
use noetl_domain::ids::Id;
use noetl_domain::outbox::{DISCARDED, OutboxStatus, RETRIED};
use noetl_domain::tenant::Scope;

/// Conditions of a scope and of a filter on FAILED and DEAD rows, as SQL parameters.
struct Conditions<'a> {
    failed: bool,
    dead: bool,
    execution_id: Option<i64>,
    min_attempts: Option<i32>,
    numbers: Option<Vec<i64>>,
    /// Tenant of the scope.
    own: Option<&'a str>,
    tenant_id: Option<&'a str>,
    organization_id: Option<&'a str>,
}

impl<'a> Conditions<'a> {
    /// Returns the conditions of a filter on a shard. A new condition of the filter does not compile until it is added
    /// here.
    fn of(scope: &'a Scope, filter: &'a OutboxFilter, shard: &View<'_>) -> Self {
        let OutboxFilter { statuses, execution_id, min_attempts, ids: _, tenant_id, organization_id } = filter;
        let wanted = |status| statuses.as_ref().is_none_or(|wanted| wanted.contains(&status));
        Self {
            failed: wanted(OutboxStatus::Failed),
            dead: wanted(OutboxStatus::Dead),
            execution_id: execution_id.map(Id::get),
            min_attempts: *min_attempts,
            numbers: filter.numbers(shard),
            own: scope.tenant(),
            tenant_id: tenant_id.as_deref(),
            organization_id: organization_id.as_deref(),
        }
    }
}

/// Content of the events about changed rows.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRecord<'a> {
    /// Ids of the events (at most 4095). A statement changes as many rows at most.
    pub event_ids: &'a [i64],
    /// Reason that the caller gave.
    pub reason: Option<&'a str>,
    /// Meta of the events.
    pub meta: &'a Value,
}

/// Numbers of what a statement wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedRows {
    /// Rows that were changed.
    pub rows: i64,
    /// Events about them. Rows of no execution of the shard have none.
    pub events: i64,
}

/// Expands to a statement that changes the matching rows whose `available_at` meets a condition, up to as many as there are
/// event ids, and inserts the events about them.
///
/// An event gets a given id. If the log ends with a larger one, of another origin or of a replica whose clock is ahead, it gets
/// one in the next millisecond, as `Snowflakes::next_after` makes it: with the machine id of the given one (the bits 4190208),
/// and a sequence. Its tenant is that of the row, which the scope admits.
macro_rules! change {
    ($change:literal, $available_at:literal, $event_type:expr, $shard:ident, $conditions:ident, $record:ident) => {
        sqlx::query_as!(
            ChangedRows,
            "WITH changed AS ("
                + $change
                + "WHERE outbox_id = ANY (ARRAY(
                     SELECT outbox_id FROM noetl.outbox
                     WHERE status = 'FAILED' AND attempts >= 0 AND available_at "
                + $available_at
                + r#"
                       AND CASE WHEN available_at = 'infinity' THEN $2::boolean ELSE $1::boolean END
                       AND ($3::bigint IS NULL OR execution_id = $3) AND ($4::integer IS NULL OR attempts >= $4)
                       AND ($5::bigint[] IS NULL OR outbox_id = ANY($5))
                       AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7)
                       AND ($8::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $8)
                       AND ($9::text IS NULL OR noetl.outbox_owner(organization_id, payload, 'organization_id') = $9)
                       AND CASE WHEN $10::bytea IS NULL OR execution_id IS NULL THEN true
                                ELSE get_bit($10, noetl.bucket_of(execution_id)) = 1 END
                     ORDER BY available_at LIMIT cardinality($6::bigint[]) FOR UPDATE SKIP LOCKED))
                 RETURNING outbox_id, execution_id,
                           noetl.outbox_owner(tenant_id, payload, 'tenant_id') AS tenant_id,
                           noetl.outbox_owner(organization_id, payload, 'organization_id') AS organization_id
             ), recorded AS (
                 INSERT INTO noetl.event (execution_id, event_id, catalog_id, parent_execution_id, event_type, node_id,
                                          node_name, node_type, context, meta, tenant_id, organization_id)
                 SELECT row.execution_id,
                        CASE WHEN given.event_id > last.event_id THEN given.event_id
                             ELSE (((last.event_id >> 22) + 1) << 22) | (given.event_id & 4190208) | row.place END,
                        listed.catalog_id, listed.parent_execution_id, $11::text, 'outbox', listed.path, 'outbox',
                        jsonb_strip_nulls(jsonb_build_object(
                            'outbox_id', $12::text || '-' || row.outbox_id, 'reason', $13::text)),
                        $14::jsonb, row.tenant_id, row.organization_id
                 FROM (SELECT *, row_number() OVER () AS place FROM changed) AS row
                 JOIN unnest($6::bigint[]) WITH ORDINALITY AS given (event_id, place) ON given.place = row.place
                 JOIN noetl.execution AS listed ON listed.execution_id = row.execution_id
                 CROSS JOIN LATERAL (SELECT noetl.log_end(row.execution_id) AS event_id OFFSET 0) AS last
                 WHERE row.execution_id <> 0 AND last.event_id IS NOT NULL
                 RETURNING event_id
             )
             SELECT (SELECT count(*) FROM changed) AS "rows!", (SELECT count(*) FROM recorded) AS "events!""#,
            $conditions.failed,
            $conditions.dead,
            $conditions.execution_id,
            $conditions.min_attempts,
            $conditions.numbers.as_deref(),
            $record.event_ids,
            $conditions.own,
            $conditions.tenant_id,
            $conditions.organization_id,
            $shard.held(),
            $event_type,
            $shard.shard_index().to_string(),
            $record.reason,
            $record.meta,
        )
    };
}

/// Returns the number of matching rows in the scope that a retry changes: FAILED rows that are not due, and DEAD rows.
pub async fn retryable(shard: View<'_>, scope: &Scope, filter: &OutboxFilter) -> Result<i64, StorageError> {
    matched(&shard, Conditions::of(scope, filter, &shard)).await
}

/// Returns the number of matching DEAD rows in the scope.
pub async fn discardable(shard: View<'_>, scope: &Scope, filter: &OutboxFilter) -> Result<i64, StorageError> {
    matched(&shard, Conditions { failed: false, ..Conditions::of(scope, filter, &shard) }).await
}

/// Counts the FAILED rows that are not due, and the DEAD rows, that meet the conditions.
#[tracing::instrument(level = "debug", name = "sql.outbox.matched", skip_all, fields(database = %shard.name()))]
async fn matched(shard: &View<'_>, conditions: Conditions<'_>) -> Result<i64, StorageError> {
    let Conditions { failed, dead, execution_id, min_attempts, numbers, own, tenant_id, organization_id } = conditions;
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM noetl.outbox
           WHERE status = 'FAILED' AND attempts >= 0 AND available_at > now()
             -- So that the index passes over the rows that are not dead, if they are not wanted.
             AND available_at >= CASE WHEN $1::boolean THEN '-infinity' ELSE 'infinity'::timestamptz END
             AND CASE WHEN available_at = 'infinity' THEN $2::boolean ELSE $1::boolean END
             AND ($3::bigint IS NULL OR execution_id = $3) AND ($4::integer IS NULL OR attempts >= $4)
             AND ($5::bigint[] IS NULL OR outbox_id = ANY($5))
             AND ($6::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $6)
             AND ($7::text IS NULL OR noetl.outbox_owner(tenant_id, payload, 'tenant_id') = $7)
             AND ($8::text IS NULL OR noetl.outbox_owner(organization_id, payload, 'organization_id') = $8)
             AND CASE WHEN $9::bytea IS NULL OR execution_id IS NULL THEN true ELSE get_bit($9, noetl.bucket_of(execution_id)) = 1 END"#,
        failed,
        dead,
        execution_id,
        min_attempts,
        numbers.as_deref(),
        own,
        tenant_id,
        organization_id,
        shard.held(),
    );
    shard.run(count.fetch_one(shard.pool())).await
}

/// Makes matching FAILED and DEAD rows in the scope claimable at once. A DEAD row starts again at no attempts.
#[tracing::instrument(level = "debug", name = "sql.outbox.retry", skip_all, fields(database = %shard.name()))]
pub async fn retry(
    shard: View<'_>,
    scope: &Scope,
    filter: &OutboxFilter,
    record: ChangeRecord<'_>,
) -> Result<ChangedRows, StorageError> {
    let conditions = Conditions::of(scope, filter, &shard);
    let update = change!(
        "UPDATE noetl.outbox
         SET attempts = CASE WHEN available_at = 'infinity' THEN 0 ELSE attempts END, available_at = now(),
             updated_at = now() ",
        "> now()",
        RETRIED,
        shard,
        conditions,
        record
    );
    shard.run(update.fetch_one(shard.pool())).await
}

/// Deletes matching DEAD rows in the scope.
#[tracing::instrument(level = "debug", name = "sql.outbox.discard", skip_all, fields(database = %shard.name()))]
pub async fn discard(
    shard: View<'_>,
    scope: &Scope,
    filter: &OutboxFilter,
    record: ChangeRecord<'_>,
) -> Result<ChangedRows, StorageError> {
    let conditions = Conditions::of(scope, filter, &shard);
    let delete = change!("DELETE FROM noetl.outbox ", "= 'infinity'", DISCARDED, shard, conditions, record);
    shard.run(delete.fetch_one(shard.pool())).await
}

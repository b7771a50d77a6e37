//! Loads snapshots and folds the events that are not in them.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use serde_json::Value;
use tokio::time::timeout;

use super::{AGGREGATE, Defect, Projected, SnapshotInfo};
use crate::budget::{Budget, Exceeded, uncharged};
use crate::connections::Transaction;
use crate::error::StorageError;
use crate::pools::Database;
use noetl_domain::event::Event;
use noetl_domain::ids::Id;
use noetl_domain::projection::{Moment, Projection, SHAPE, Watermark, checksum};
use noetl_domain::tenant::{Scope, Tenancy};
use noetl_domain::tx_snapshot::TxSnapshot;
use noetl_domain::workflow::known_types;
use plain_json as json;

/// Returns the current state of each of these logs in the scope, in no order. Memory is bounded by the size of the
/// states and not by the length of the logs. The fold takes at most `limit`; the database ends it too, so that a fold
/// whose reader does not continue frees its connection.
pub async fn read(
    shard: &Database,
    scope: &Scope,
    ids: &[i64],
    limit: Duration,
) -> Result<Vec<Projected>, StorageError> {
    read_until(shard, scope, ids, None, limit).await
}

/// Number of events of a read after which the states are sealed, so that their size stays that of the open iterations.
const SEAL_EVERY: usize = 8192;

/// Returns the state of a log at a moment of its history. `Ok(None)`: the log is not in the scope. The fold starts at
/// the stored snapshot if this contains no later event, else at the beginning. It takes at most `limit`.
pub async fn read_at(
    shard: &Database,
    scope: &Scope,
    id: i64,
    moment: Moment,
    limit: Duration,
) -> Result<Option<Projected>, StorageError> {
    Ok(read_until(shard, scope, &[id], Some(moment), limit).await?.pop())
}

#[tracing::instrument(
    level = "debug", name = "sql.snapshots.read", skip_all,
    fields(database = %shard.name(), count = ids.len(), first = ids.first(), until = until.map(tracing::field::debug))
)]
async fn read_until(
    shard: &Database,
    scope: &Scope,
    ids: &[i64],
    until: Option<Moment>,
    limit: Duration,
) -> Result<Vec<Projected>, StorageError> {
    let _permit = shard.may_take_long().await;
    let begin = async {
        let pool = shard.planned_for(ids.len());
        let mut tx = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
        let moment = moment(&mut tx, limit).await?;
        let starts = starts(&mut tx, scope, ids).await?;
        Ok((tx, moment, starts))
    };
    let (mut tx, moment, starts) = shard.run(begin).await?;
    let start = |start: StartRow| (start.id, Projected::start(start, &moment, until));
    let mut projections: HashMap<i64, Projected> = starts.into_iter().map(start).collect();
    // The state of a long log must be readable, so the states are charged and not the rows, which are dropped when
    // folded.
    let folded = timeout(limit, uncharged(fold_exactly(&mut tx, &mut projections, until))).await;
    folded.map_err(|_| shard.timed_out(limit))?.map_err(|error| shard.failed(error))?;
    charge(&projections).map_err(StorageError::LimitExceeded)?;
    shard.run(tx.commit()).await?;
    Ok(projections.into_values().collect())
}

/// Transaction snapshot of a read, and the database cluster to which it belongs.
pub(super) struct ReadSnapshot {
    snapshot: String,
    system: String,
}

/// Returns the moment of a transaction, and sets the transaction's statement timeout to `limit`.
pub(super) async fn moment(tx: &mut Transaction, limit: Duration) -> sqlx::Result<ReadSnapshot> {
    sqlx::query_as!(
        ReadSnapshot,
        r#"SELECT pg_current_snapshot()::text AS "snapshot!", system_identifier::text AS "system!"
           FROM pg_control_system(), set_config('statement_timeout', $1, true)"#,
        limit.as_millis().max(1).to_string(),
    )
    .fetch_one(&mut **tx)
    .await
}

/// Tenant of a log, and its stored snapshot, if there is one, before the checks.
struct StartRow {
    id: i64,
    tenant_id: String,
    organization_id: String,
    version: Option<i64>,
    snapshot: Option<String>,
    checksum: Option<String>,
    schema: Option<i32>,
    as_of: Option<String>,
    system: Option<String>,
    applied_count: Option<i64>,
    updated_at: Option<DateTime<Utc>>,
}

/// A stored snapshot before its checks.
struct Stored {
    version: i64,
    snapshot: Option<String>,
    checksum: String,
    schema: Option<i32>,
    as_of: Option<String>,
    system: Option<String>,
    applied_count: Option<i64>,
    updated_at: DateTime<Utc>,
}

/// Returns the tenant and the snapshot of each log in the scope. The columns are expressions, because the
/// description of the statement in .sqlx would depend on the plan if they were columns of an outer join.
///
/// The tenant is that of the row in the list. A row with the default tenant may have been written before rows had one,
/// or by another server, so then it is that of the log.
async fn starts(tx: &mut Transaction, scope: &Scope, ids: &[i64]) -> sqlx::Result<Vec<StartRow>> {
    let rows = sqlx::query_as!(
        StartRow,
        r#"SELECT coalesce(log.id) AS "id!", owner.tenant_id AS "tenant_id!", owner.organization_id AS "organization_id!",
                  coalesce(version) AS version, snapshot::text AS snapshot, coalesce(checksum) AS checksum,
                  CASE WHEN meta ->> 'schema' ~ '^\d{1,9}$' THEN (meta ->> 'schema')::integer END AS schema,
                  meta ->> 'as_of' AS as_of, meta ->> 'system' AS system,
                  CASE WHEN meta ->> 'applied_count' ~ '^\d{1,18}$' THEN (meta ->> 'applied_count')::bigint END
                      AS applied_count,
                  coalesce(stored.updated_at) AS updated_at
           FROM unnest($1::bigint[]) AS log (id)
           LEFT JOIN noetl.execution AS listed
             ON listed.execution_id = log.id AND (listed.tenant_id, listed.organization_id) <> ('default', 'default')
           LEFT JOIN LATERAL noetl.log_owner(CASE WHEN listed.execution_id IS NULL THEN log.id END) AS first ON true
           CROSS JOIN LATERAL (
               SELECT coalesce(listed.tenant_id, first.tenant_id, 'default') AS tenant_id,
                      coalesce(listed.organization_id, first.organization_id, 'default') AS organization_id
           ) AS owner
           LEFT JOIN LATERAL (
               SELECT * FROM noetl.projection_snapshot
               WHERE tenant_id = owner.tenant_id AND organization_id = owner.organization_id
                 AND aggregate_type = $2 AND aggregate_id = log.id::text OFFSET 0
           ) AS stored ON true
           WHERE $3::text IS NULL OR owner.tenant_id = $3"#,
        ids,
        AGGREGATE,
        scope.tenant(),
    );
    rows.fetch_all(&mut **tx).await
}

impl StartRow {
    fn stored(self) -> Option<Stored> {
        Some(Stored {
            version: self.version?,
            snapshot: self.snapshot,
            checksum: self.checksum?,
            schema: self.schema,
            as_of: self.as_of,
            system: self.system,
            applied_count: self.applied_count,
            updated_at: self.updated_at?,
        })
    }
}

impl Projected {
    /// Returns the start of the fold: the stored snapshot if it is valid and has no event after `until`, else the empty
    /// state.
    fn start(mut row: StartRow, moment: &ReadSnapshot, until: Option<Moment>) -> Self {
        let tenancy = Tenancy {
            tenant_id: std::mem::take(&mut row.tenant_id),
            organization_id: std::mem::take(&mut row.organization_id),
        };
        let mut projected = Self {
            execution_id: Id::new(row.id),
            tenancy,
            projection: Projection::default(),
            snapshot: None,
            folded: 0,
            defect: None,
            base: TxSnapshot::beginning().to_string(),
            as_of: moment.snapshot.clone(),
            system: moment.system.clone(),
            unusable: None,
            until,
        };
        let stored = row.stored();
        match stored.as_ref().map(|stored| stored.open(&moment.system)) {
            Some(Ok((projection, ..))) if until.is_some_and(|until| !projection.is_within(until)) => {}
            Some(Ok((projection, snapshot, base))) => {
                (projected.projection, projected.snapshot, projected.base) = (projection, Some(snapshot), base);
            }
            Some(Err(defect)) => {
                (projected.defect, projected.unusable) = (Some(defect), stored.map(|stored| stored.checksum));
            }
            None => {}
        }
        projected
    }
}

impl Projected {
    /// Returns the start of the fold without the stored snapshot.
    fn without_snapshot(self) -> Self {
        let defect = self.snapshot.as_ref().map(|_| Defect::Contradicted).or(self.defect);
        let base = TxSnapshot::beginning().to_string();
        Self { projection: Projection::default(), snapshot: None, folded: 0, defect, base, ..self }
    }
}

impl Stored {
    /// Checks the snapshot and returns its state, its metadata and its transaction snapshot.
    fn open(&self, of_system: &str) -> Result<(Projection, SnapshotInfo, String), Defect> {
        if self.schema != Some(SHAPE) {
            return Err(Defect::Shape);
        }
        if self.system.as_deref() != Some(of_system) {
            return Err(Defect::OtherDatabase);
        }
        let (version, updated_at) = (self.version, self.updated_at);
        let (applied_count, as_of) = self.applied_count.zip(self.as_of.as_deref()).ok_or(Defect::Checksum)?;
        as_of.parse::<TxSnapshot>().map_err(|_| Defect::Checksum)?;
        let text = self.snapshot.as_deref().unwrap_or_default();
        let state = json::read(text).map_err(|_| Defect::Checksum)?;
        let checksum = checksum(&state, Watermark { as_of, system: of_system, version, applied_count });
        if checksum != self.checksum {
            return Err(Defect::Checksum);
        }
        let state = json::fields(state).map_err(|_| Defect::Shape)?;
        let version = Id::new(version);
        let projection = Projection { state, version: Some(version), applied_count };
        let info = SnapshotInfo { version, applied_count, checksum, schema: SHAPE, updated_at };
        Ok((projection, info, as_of.to_owned()))
    }
}

/// Columns of an event that the fold reads. JSON is text, as other writers may store JSON that a [`Value`] can't hold.
struct Row {
    execution_id: i64,
    event_id: i64,
    catalog_id: i64,
    parent_execution_id: Option<i64>,
    created_at: DateTime<Utc>,
    event_type: String,
    node_id: Option<String>,
    node_name: Option<String>,
    status: Option<String>,
    context: Option<String>,
    result: Option<String>,
    meta: Option<String>,
    error: Option<String>,
}

/// Folds the events up to `until` that the snapshots do not see, and seals the states. A log that contradicts its sealed
/// state is folded again from its start.
async fn fold_exactly(
    tx: &mut Transaction,
    projections: &mut HashMap<i64, Projected>,
    until: Option<Moment>,
) -> sqlx::Result<()> {
    fold(tx, projections, until, Some(SEAL_EVERY)).await?;
    let contradicted: Vec<i64> =
        projections.iter().filter(|(_, one)| !one.projection.state.is_exact()).map(|(id, _)| *id).collect();
    if !contradicted.is_empty() {
        let mut again: HashMap<i64, Projected> =
            contradicted.iter().filter_map(|id| Some((*id, projections.remove(id)?.without_snapshot()))).collect();
        fold(tx, &mut again, until, None).await?;
        projections.extend(again);
    }
    projections.values_mut().for_each(|projected| projected.projection.state.seal());
    Ok(())
}

/// Folds the events up to `until` that the snapshots do not see, and seals the states each time after `seal_every`
/// events. The fold does not depend on the order, so the query does
/// not sort.
///
/// The query uses ranges in place of equalities, because the planner expects few rows from a range. Where one log, or
/// one transaction, makes up most of the table, the planner would not use the index on a log's transactions for an
/// equality, and would read the whole log for a few events.
async fn fold(
    tx: &mut Transaction,
    projections: &mut HashMap<i64, Projected>,
    until: Option<Moment>,
    seal_every: Option<usize>,
) -> sqlx::Result<()> {
    let (last, latest) = bounds(until);
    let (ids, bases): (Vec<i64>, Vec<String>) =
        projections.iter().map(|(id, projected)| (*id, projected.base.clone())).unzip();
    let known: Vec<String> = known_types().map(str::to_owned).collect();
    let mut rows = sqlx::query_as!(
        Row,
        r#"SELECT unseen.execution_id AS "execution_id!", event_id AS "event_id!", catalog_id AS "catalog_id!",
                  parent_execution_id,
                  greatest(least(created_at, '9999-12-31'), '0001-01-01') AT TIME ZONE 'UTC' AS "created_at!",
                  coalesce(event_type, '') AS "event_type!", node_id, node_name, status,
                  CASE WHEN event_type = ANY($3) THEN context::text END AS context,
                  CASE WHEN event_type = ANY($3) THEN result::text END AS result,
                  CASE WHEN event_type = ANY($3) THEN meta::text END AS meta,
                  CASE WHEN event_type = ANY($3) THEN error END AS error
           FROM unnest($1::bigint[], $2::text[]) AS base (id, as_of)
           CROSS JOIN LATERAL (
               SELECT * FROM noetl.event
               WHERE execution_id >= base.id AND execution_id <= base.id
                 AND tx_id >= pg_snapshot_xmax(base.as_of::pg_snapshot)
               UNION ALL
               SELECT event.* FROM pg_snapshot_xip(base.as_of::pg_snapshot) AS late
               CROSS JOIN LATERAL (
                   SELECT * FROM noetl.event WHERE execution_id = base.id AND tx_id >= late AND tx_id <= late OFFSET 0
               ) AS event
           ) AS unseen
           WHERE event_id <= $4 AND ($5::timestamptz IS NULL OR created_at <= $5 AT TIME ZONE 'UTC')"#,
        &ids,
        &bases,
        &known,
        last.get(),
        latest,
    )
    .fetch(&mut **tx);
    let mut since_seal = 0;
    while let Some(row) = rows.try_next().await? {
        if let Some(projected) = projections.get_mut(&row.execution_id) {
            projected.folded += 1;
            projected.projection.fold(&Event::from(row));
        }
        since_seal += 1;
        if Some(since_seal) == seal_every {
            projections.values_mut().for_each(|projected| projected.projection.state.seal());
            since_seal = 0;
        }
    }
    Ok(())
}

/// Returns the last event id and the latest time of a moment.
pub(super) fn bounds(until: Option<Moment>) -> (Id, Option<DateTime<Utc>>) {
    match until {
        None => (Id::new(i64::MAX), None),
        Some(Moment::Event(id)) => (id, None),
        Some(Moment::Time(time)) => (Id::new(i64::MAX), Some(time)),
    }
}

/// Charges the states to the operation's budget, except those without folded events: their snapshots were charged when
/// they were read.
fn charge(projections: &HashMap<i64, Projected>) -> Result<(), Exceeded> {
    let Some(budget) = Budget::current() else { return Ok(()) };
    let folded = projections.values().filter(|projected| projected.folded > 0);
    folded.into_iter().try_for_each(|projected| budget.charge_row(projected.weight()))
}

impl From<Row> for Event {
    fn from(row: Row) -> Self {
        let ids = (Id::new(row.execution_id), Id::new(row.event_id), Id::new(row.catalog_id));
        Self {
            parent_execution_id: row.parent_execution_id.map(Id::new),
            node_id: row.node_id,
            node_name: row.node_name,
            status: row.status,
            context: row.context.map(readable),
            result: row.result.map(readable),
            meta: row.meta.map(readable),
            error: row.error,
            ..Self::bare(ids.0, ids.1, ids.2, &row.event_type, row.created_at)
        }
    }
}

/// Returns the JSON value, or its text as a string if a [`Value`] can't hold it: too many levels, or a number out of
/// range.
pub(super) fn readable(text: String) -> Value {
    json::read(&text).unwrap_or(Value::String(text))
}

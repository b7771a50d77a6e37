//! Loads snapshots and folds the events that are not in them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use tokio::time::{Instant, timeout};

use super::rows::{self, EventRow, StartRow, StateRow, Stored};
use super::{Defect, Projected, SnapshotInfo};
use crate::budget::{Budget, Exceeded, uncharged};
use crate::connections::Transaction;
use crate::error::StorageError;
use crate::metered::passed;
use crate::pools::{Database, OPERATION_DEADLINE};
use noetl_domain::event::Event;
use noetl_domain::execution::StatusSource;
use noetl_domain::ids::Id;
use noetl_domain::labels::Labels;
use noetl_domain::projection::{Moment, Projection, Watermark, checksum, shape_for};
use noetl_domain::tenant::{Scope, Tenancy};
use noetl_domain::tx_snapshot::TxSnapshot;
use plain_json as json;

/// Number of events that are not in the snapshot of a log, up to which one statement reads the state of the log.
const FEW_EVENTS: i64 = 200;
/// Maximum time of that statement. If it takes longer, a transaction reads the logs.
const SHORT: Duration = Duration::from_secs(2);
const _: () = assert!(2 * SHORT.as_millis() <= OPERATION_DEADLINE.as_millis(), "the transaction needs time too");

/// Returns the current state of each of these logs in the scope, in no order. Memory is bounded by the size of the
/// states and not by the length of the logs. The fold takes at most `limit`; the database ends it too, so that a fold
/// whose reader does not continue frees its connection.
///
/// Most logs have few events that are not in their snapshots. One statement reads these. The other logs are read in a
/// transaction.
pub async fn read(
    shard: &Database,
    scope: &Scope,
    ids: &[i64],
    limit: Duration,
) -> Result<Vec<Projected>, StorageError> {
    Ok(read_within(shard, scope, ids, usize::MAX, limit).await?.0)
}

/// Reads as [`read`] does, but only logs whose stored snapshots have at most `room` bytes together, or one log. Also
/// returns the ids of the logs that are left. If the one statement fails or takes too long, the sizes are unknown, and all
/// logs are read.
pub async fn read_within(
    shard: &Database,
    scope: &Scope,
    ids: &[i64],
    room: usize,
    limit: Duration,
) -> Result<(Vec<Projected>, Vec<i64>), StorageError> {
    let (budget, begun) = (Budget::current(), Instant::now());
    let few = uncharged(read_few(shard, scope, ids, room, budget.as_deref()));
    let Few { mut found, others, left } = match timeout(limit.min(SHORT), shard.run(few)).await {
        // A malformed snapshot fails the statement, and large events need more time.
        Err(_) | Ok(Err(StorageError::Unstorable { .. } | StorageError::Refused { .. })) => {
            Few { found: HashMap::new(), others: ids.to_vec(), left: Vec::new() }
        }
        Ok(few) => few?,
    };
    charge(&found).map_err(StorageError::LimitExceeded)?;
    let mut found: Vec<Projected> = found.drain().map(|(_, projected)| projected).collect();
    if !others.is_empty() {
        let rest = limit.checked_sub(begun.elapsed()).ok_or_else(|| shard.timed_out(limit))?;
        found.extend(read_until(shard, scope, &others, None, rest).await?);
    }
    Ok((found, left))
}

/// States of the logs that one statement has read, and the other logs.
struct Few {
    found: HashMap<i64, Projected>,
    /// Logs that the statement can't read.
    others: Vec<i64>,
    /// Logs for whose snapshots there was no room.
    left: Vec<i64>,
}

/// Reads the states of logs in one statement. The snapshots are charged to the budget.
async fn read_few(
    shard: &Database,
    scope: &Scope,
    ids: &[i64],
    mut room: usize,
    budget: Option<&Budget>,
) -> sqlx::Result<Few> {
    let (mut found, mut others, mut left) = (HashMap::new(), HashSet::new(), HashSet::new());
    let mut rows = rows::starts(shard.planned_for(ids.len()), scope, ids, FEW_EVENTS + 1, shard.shape());
    while let Some(row) = rows.try_next().await? {
        match row {
            StateRow::Start(start) => {
                let snapshot = start.stored.as_ref().and_then(|stored| stored.snapshot.as_ref());
                let bytes = snapshot.map_or(0, String::len);
                if bytes > room && !(found.is_empty() && others.is_empty()) {
                    left.insert(start.id);
                    continue;
                }
                room = room.saturating_sub(bytes);
                budget.map_or(Ok(()), |budget| budget.charge_row(bytes)).map_err(passed)?;
                let projected = Projected::start(start, None, shard.status_source());
                // The events of a log are those that a valid snapshot does not see.
                let id = projected.execution_id.get();
                if projected.defect.is_some() {
                    others.insert(id);
                } else {
                    found.insert(id, projected);
                }
            }
            StateRow::Event(event) => {
                let id = event.execution_id;
                match found.get_mut(&id) {
                    Some(projected) if projected.folded < FEW_EVENTS => projected.fold(event),
                    None if left.contains(&id) => {}
                    _ => {
                        found.remove(&id);
                        others.insert(id);
                    }
                }
            }
        }
    }
    others.extend(found.iter().filter(|(_, one)| !one.projection.state.is_exact()).map(|(id, _)| *id));
    found.retain(|id, _| !others.contains(id));
    for projected in found.values_mut() {
        projected.projection.state.seal();
    }
    Ok(Few { found, others: others.into_iter().collect(), left: left.into_iter().collect() })
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
        set_timeout(&mut tx, limit).await?;
        let starts: Vec<StateRow> = rows::starts(&mut *tx, scope, ids, 0, shard.shape()).try_collect().await?;
        Ok((tx, starts))
    };
    let (mut tx, starts) = shard.run(begin).await?;
    let start = |row| match row {
        StateRow::Start(start) => Some((start.id, Projected::start(start, until, shard.status_source()))),
        StateRow::Event(_) => None,
    };
    let mut projections: HashMap<i64, Projected> = starts.into_iter().filter_map(start).collect();
    // The state of a long log must be readable, so the states are charged and not the rows, which are dropped when
    // folded.
    let folded = timeout(limit, uncharged(fold_exactly(&mut tx, &mut projections, until))).await;
    folded.map_err(|_| shard.timed_out(limit))?.map_err(|error| shard.failed(error))?;
    charge(&projections).map_err(StorageError::LimitExceeded)?;
    shard.run(tx.commit()).await?;
    Ok(projections.into_values().collect())
}

/// Sets the statement timeout of a transaction.
pub(super) async fn set_timeout(tx: &mut Transaction, limit: Duration) -> sqlx::Result<()> {
    let milliseconds = limit.as_millis().max(1).to_string();
    sqlx::query!("SELECT set_config('statement_timeout', $1, true)", milliseconds).fetch_one(&mut **tx).await?;
    Ok(())
}

impl Projected {
    /// Returns the start of the fold: the stored snapshot if it is valid and has no event after `until`, else the empty
    /// state. The status of the state has this source.
    fn start(row: StartRow, until: Option<Moment>, source: StatusSource) -> Self {
        let mut projected = Self {
            execution_id: Id::new(row.id),
            tenancy: Tenancy { tenant_id: row.tenant_id, organization_id: row.organization_id },
            projection: Projection::default().with_status_from(source),
            snapshot: None,
            folded: 0,
            defect: None,
            start_is_stored: false,
            document_labels: Labels::default(),
            base: TxSnapshot::beginning().to_string(),
            as_of: row.read_as_of,
            system: row.read_system,
            life: row.read_life,
            unusable: None,
            until,
        };
        let stored = row.stored;
        match stored.as_ref().map(|stored| stored.open(&projected.system, source)) {
            Some(Ok((projection, ..))) if until.is_some_and(|until| !projection.is_within(until)) => {}
            Some(Ok((projection, snapshot, base))) => {
                (projected.projection, projected.snapshot, projected.base) = (projection, Some(snapshot), base);
            }
            Some(Err(defect)) => {
                (projected.defect, projected.unusable) = (Some(defect), stored.map(|stored| stored.checksum));
            }
            None => {}
        }
        projected.start_is_stored = !projected.projection.state.started.is_empty();
        projected
    }

    fn fold(&mut self, event: EventRow) {
        self.folded += 1;
        self.projection.fold(&Event::from(event));
    }

    /// Returns the start of the fold without the stored snapshot.
    fn without_snapshot(self) -> Self {
        let defect = self.snapshot.as_ref().map(|_| Defect::Contradicted).or(self.defect);
        let base = TxSnapshot::beginning().to_string();
        let projection = Projection::default().with_status_from(self.projection.state.status_source());
        Self { projection, snapshot: None, folded: 0, defect, base, ..self }
    }
}

impl Stored {
    /// Checks the snapshot and returns its state, its metadata and its transaction snapshot.
    fn open(&self, of_system: &str, source: StatusSource) -> Result<(Projection, SnapshotInfo, String), Defect> {
        let schema = shape_for(source);
        if self.schema != Some(schema) {
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
        let watermark = Watermark { as_of, system: of_system, version, applied_count, schema };
        let checksum = checksum(&state, watermark).map_err(|_| Defect::Checksum)?;
        if checksum != self.checksum {
            return Err(Defect::Checksum);
        }
        let state = json::fields(state).map_err(|_| Defect::Shape)?;
        let version = Id::new(version);
        let projection = Projection { state, version: Some(version), applied_count }.with_status_from(source);
        let info = SnapshotInfo { version, applied_count, checksum, schema, updated_at };
        Ok((projection, info, as_of.to_owned()))
    }
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
    for projected in projections.values_mut() {
        projected.projection.state.seal();
    }
    Ok(())
}

/// Folds the events up to `until` that the snapshots do not see, and seals the states each time after `seal_every`
/// events. The fold does not depend on the order of the events.
async fn fold(
    tx: &mut Transaction,
    projections: &mut HashMap<i64, Projected>,
    until: Option<Moment>,
    seal_every: Option<usize>,
) -> sqlx::Result<()> {
    let (ids, bases): (Vec<i64>, Vec<String>) =
        projections.iter().map(|(id, projected)| (*id, projected.base.clone())).unzip();
    let mut rows = rows::unseen(&mut **tx, &ids, &bases, bounds(until));
    let mut since_seal = 0;
    while let Some(row) = rows.try_next().await? {
        if let Some(projected) = projections.get_mut(&row.execution_id) {
            projected.fold(row);
        }
        since_seal += 1;
        if Some(since_seal) == seal_every {
            for projected in projections.values_mut() {
                projected.projection.state.seal();
            }
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

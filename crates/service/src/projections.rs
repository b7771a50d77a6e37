//! Reading and advancing projections. Both load the latest valid snapshot and fold exactly the events that are not in it.
//! So the state includes every event committed before the read, and an advance over the same events always stores the same
//! state. The rows of the list also have labels of catalog documents (`document_labels.rs`).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use serde_json::Value;

use super::catalog::Catalog;
use super::document_labels;
use super::moves::repeated_for_each;
use super::shards::{by_shard, rows_by_ids};
use noetl_domain::ids::Id;
use noetl_domain::projection::Moment;
use noetl_domain::tenant::Scope;
use noetl_domain::workflow::End;
use noetl_runtime::crash_point;
use noetl_storage::error::StorageError;
use noetl_storage::events;
use noetl_storage::executions::ExecutionRow;
use noetl_storage::pools::{Database, Databases};
use noetl_storage::snapshots::{self, Defect, LoopOfState, Projected};
use noetl_use_cases::error::{ReadFailures, Rejection, ServiceError};
use noetl_use_cases::projections::{AdvanceProjections, Advanced, Advances, ReadProjections};

/// Number of states in memory at the same time, for each shard of a request.
const AT_ONCE: usize = 100;
/// Maximum number of executions that one advance stores together.
const STORED_AT_ONCE: usize = 20;
/// Maximum size in bytes of the stored snapshots that one advance reads together. A larger one is read alone. A parsed
/// state takes several times as much memory as its snapshot.
const ADVANCED_BYTES: usize = 1 << 20;

/// Maximum time of one fold. It is longer than the deadline of an operation, for the long logs that the projector folds
/// for the first time.
const FOLD_LIMIT: Duration = Duration::from_mins(1);

/// Maximum size in bytes of the states that one statement stores. A larger state is stored alone.
const MAX_STORED_BYTES: usize = 4 << 20;

/// Use cases of projections.
#[derive(Debug, Clone)]
pub struct Projections {
    pub(super) databases: Databases,
    catalog: Catalog,
}

#[async_trait]
impl ReadProjections for Projections {
    #[tracing::instrument(
        level = "debug", name = "projections.read", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display))
    )]
    async fn read(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, Projected>, ReadFailures) {
        let query = |shard, ids: Vec<i64>| async move { read(shard, scope, &ids).await };
        let (found, failed) = rows_by_ids(&self.databases, ids.iter().copied(), query).await;
        (found.into_iter().map(|projected| (projected.execution_id, projected)).collect(), failed)
    }

    #[tracing::instrument(level = "debug", name = "projections.at", skip_all, fields(execution = %id))]
    async fn at(&self, id: Id, moment: Moment, scope: &Scope) -> Result<Option<Projected>, ServiceError> {
        let shard = self.databases.shard_of(id);
        let projected = snapshots::read_at(shard, scope, id.get(), moment, FOLD_LIMIT).await?;
        projected.iter().for_each(note_defect);
        Ok(projected.filter(|projected| projected.projection.is_execution()))
    }

    #[tracing::instrument(level = "debug", name = "projections.loop_results", skip_all, fields(count = loops.len()))]
    async fn loop_results(&self, loops: &[LoopOfState<'_>]) -> Vec<Result<Option<Value>, ServiceError>> {
        let places = loops.iter().copied().enumerate();
        let groups = by_shard(&self.databases, places, |(_, wanted)| wanted.projected.execution_id);
        let queries = groups.into_iter().map(async |(shard, group)| {
            let (places, loops): (Vec<usize>, Vec<LoopOfState<'_>>) = group.into_iter().unzip();
            let database = &self.databases.shards()[usize::from(shard)];
            let results = match snapshots::loop_results(database, &loops, FOLD_LIMIT).await {
                Ok(results) => results.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(ServiceError::from(error)); loops.len()],
            };
            places.into_iter().zip(results).collect::<Vec<_>>()
        });
        let mut results: Vec<_> = join_all(queries).await.into_iter().flatten().collect();
        results.sort_by_key(|(place, _)| *place);
        results.into_iter().map(|(_, result)| result).collect()
    }

    #[tracing::instrument(level = "debug", name = "projections.outdated", skip_all, fields(count = rows.len()))]
    async fn outdated(&self, rows: &[&ExecutionRow]) -> (BTreeSet<Id>, ReadFailures) {
        let query = |shard, ids: Vec<i64>| {
            let of_shard = rows.iter().copied().filter(|row| ids.contains(&row.execution_id)).collect::<Vec<_>>();
            async move { snapshots::outdated(shard, &of_shard).await }
        };
        let ids = rows.iter().map(|row| Id::new(row.execution_id));
        let (found, failed) = rows_by_ids(&self.databases, ids, query).await;
        (found.into_iter().map(Id::new).collect(), failed)
    }

    #[tracing::instrument(
        level = "debug", name = "projections.ends", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display))
    )]
    async fn ends(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, End>, ReadFailures) {
        let query = |shard, ids: Vec<i64>| async move { events::ends(shard, scope, &ids).await };
        let (found, failed) = rows_by_ids(&self.databases, ids.iter().copied(), query).await;
        (found.iter().map(|event| (event.execution_id, End::of(event))).collect(), failed)
    }
}

#[async_trait]
impl AdvanceProjections for Projections {
    #[tracing::instrument(level = "debug", name = "projections.advance", skip_all)]
    async fn advance(&self, ids: BTreeSet<Id>, scope: &Scope) -> Advances {
        let advance = |ids| self.advance_once(ids, scope);
        repeated_for_each(&self.databases, ids.into_iter().collect(), advance).await.into_iter().collect()
    }
}

impl Projections {
    async fn advance_once(&self, ids: Vec<Id>, scope: &Scope) -> Vec<(Id, Result<Advanced, ServiceError>)> {
        let groups = by_shard(&self.databases, ids, |id| *id);
        let shards = groups.into_iter().map(async |(shard, ids)| {
            advance_all(&self.databases.shards()[usize::from(shard)], &self.catalog, scope, ids).await
        });
        join_all(shards).await.into_iter().flatten().collect()
    }

    /// Creates the use cases.
    #[must_use]
    pub fn new(databases: Databases, catalog: Catalog) -> Self {
        Self { databases, catalog }
    }

    /// Returns the list rows of executions in the scope that the list lacks, because another server started them and no
    /// advance has stored them yet, and the errors of those that could not be read.
    pub async fn unlisted(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, ExecutionRow>, ReadFailures) {
        let (mut states, mut failed) = self.read(ids, scope).await;
        let unlabelled = document_labels::add(&self.catalog, states.values_mut().collect()).await;
        states.retain(|id, _| !unlabelled.contains_key(id));
        failed.extend(unlabelled);
        (states.into_iter().filter_map(|(id, state)| Some((id, ExecutionRow::of(&state)?))).collect(), failed)
    }
}

async fn read(shard: &Database, scope: &Scope, ids: &[i64]) -> Result<Vec<Projected>, StorageError> {
    let mut found = Vec::with_capacity(ids.len());
    for ids in ids.chunks(AT_ONCE) {
        found.extend(snapshots::read(shard, scope, ids, FOLD_LIMIT).await?);
    }
    found.iter().for_each(note_defect);
    Ok(found)
}

/// Advances executions of one shard in groups. The size of the states bounds a group, so that the memory is bounded.
async fn advance_all(shard: &Database, catalog: &Catalog, scope: &Scope, mut ids: Vec<Id>) -> Advances {
    let (mut advances, mut at_once) = (Advances::new(), STORED_AT_ONCE);
    while !ids.is_empty() {
        let group = ids.split_off(ids.len().saturating_sub(at_once));
        let done = advance_each(shard, catalog, scope, &group).await;
        ids.extend(group.iter().filter(|id| !done.contains_key(id)));
        // After large states, no more are requested than there was room for, and then twice as many each time.
        let had_room = done.len() == group.len();
        at_once = if had_room { STORED_AT_ONCE.min(2 * at_once) } else { done.len().max(1) };
        advances.extend(done);
    }
    advances
}

/// Advances executions of one shard together, without those for which there is no room. If that fails, advances them one
/// by one, so that one faulty execution does not fail the others.
async fn advance_each(shard: &Database, catalog: &Catalog, scope: &Scope, ids: &[Id]) -> Advances {
    let error = match advance(shard, catalog, scope, ids).await {
        Ok(advances) => return advances,
        Err(error) => error,
    };
    if ids.len() == 1 || error.unavailable().is_some() {
        let error = ServiceError::from(error);
        return ids.iter().map(|id| (*id, Err(error.clone()))).collect();
    }
    let mut advances = Advances::new();
    for id in ids {
        let alone = advance(shard, catalog, scope, &[*id]).await;
        advances.extend(alone.unwrap_or_else(|error| Advances::from([(*id, Err(error.into()))])));
    }
    advances
}

/// Advances executions together. Returns no result for those for which there is no room; one always has room. One whose
/// labels can't be read is not stored.
async fn advance(shard: &Database, catalog: &Catalog, scope: &Scope, ids: &[Id]) -> Result<Advances, StorageError> {
    let numbers: Vec<i64> = ids.iter().map(|id| id.get()).collect();
    let read = async || snapshots::read_within(shard, scope, &numbers, ADVANCED_BYTES, FOLD_LIMIT).await;
    let (mut found, mut left) = read().await?;
    if !found.iter().all(Projected::is_bound) {
        snapshots::begin_life(shard).await?;
        (found, left) = read().await?;
    }
    found.iter().for_each(note_defect);
    crash_point::reach("advance.read");
    let without_room = |id: &Id| left.contains(&id.get());
    let mut advances: Advances =
        ids.iter().filter(|id| !without_room(id)).map(|id| (*id, Err(unknown(*id).into()))).collect();
    advances.extend(found.iter().map(|one| (one.execution_id, outcome(one))));
    let stale = |one: &Projected| one.projection.is_execution() && (one.folded > 0 || one.snapshot.is_none());
    let mut stale: Vec<Projected> = found.into_iter().filter(stale).collect();
    let started = stale.iter_mut().filter(|one| !one.start_is_stored).collect();
    let unlabelled = document_labels::add(catalog, started).await;
    stale.retain(|one| !unlabelled.contains_key(&one.execution_id));
    advances.extend(unlabelled.into_iter().map(|(id, error)| (id, Err(error))));
    for group in groups(stale) {
        for (id, error) in save(shard, &group).await {
            advances.insert(id, Err(error.into()));
        }
    }
    Ok(advances)
}

/// Splits projections into groups that one statement can store within its deadline. A large state is alone in its
/// group.
fn groups(projections: Vec<Projected>) -> Vec<Vec<Projected>> {
    let (mut groups, mut room): (Vec<Vec<Projected>>, usize) = (Vec::new(), 0);
    for projected in projections {
        let weight = projected.weight();
        match groups.last_mut() {
            Some(group) if weight <= room => group.push(projected),
            _ => {
                groups.push(vec![projected]);
                room = MAX_STORED_BYTES;
            }
        }
        room = room.saturating_sub(weight);
    }
    groups
}

/// Stores a group together. If that fails, stores the projections one by one. Returns those that could not be stored.
async fn save(shard: &Database, group: &[Projected]) -> Vec<(Id, StorageError)> {
    let mut failed = Vec::new();
    match snapshots::save(shard, group).await {
        Err(error) if group.len() == 1 => failed.push((group[0].execution_id, error)),
        Err(_) => {
            for alone in group {
                if let Err(error) = snapshots::save(shard, std::slice::from_ref(alone)).await {
                    failed.push((alone.execution_id, error));
                }
            }
        }
        Ok(()) => {}
    }
    metrics::counter!("noetl_projections_saved_total").increment((group.len() - failed.len()) as u64);
    failed
}

fn outcome(projected: &Projected) -> Result<Advanced, ServiceError> {
    let Projected { execution_id, projection, folded, .. } = projected;
    let version = projection.version.filter(|_| projection.is_execution());
    let version = version.ok_or_else(|| unknown(*execution_id))?;
    metrics::counter!("noetl_projection_events_folded_total").increment(u64::try_from(*folded).unwrap_or_default());
    Ok(Advanced { version, applied_count: projection.applied_count, folded: *folded })
}

fn unknown(id: Id) -> Rejection {
    Rejection::not_found("executionIds", format!("there is no execution {id}"))
}

fn note_defect(projected: &Projected) {
    let Some(defect) = projected.defect else { return };
    metrics::counter!("noetl_snapshots_ignored_total", "reason" => defect.as_str()).increment(1);
    if defect == Defect::Shape {
        // All snapshots have another shape after a change of the rules or of the source of the status.
        return;
    }
    tracing::warn!(
        execution_id = %projected.execution_id,
        reason = defect.as_str(),
        "a stored snapshot is ignored; the whole log is folded instead"
    );
}

//! Executions' states: read as of now, and advanced, that is stored so that the next read has less to fold.
//!
//! Reading and advancing take the same way: the latest good snapshot, and exactly what is not in it. So a state that is
//! read is never behind the log, and whoever advances, however often and at once, stores the same thing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::future::join_all;

use super::error::{Rejection, ServiceError};
use super::fault;
use super::shards::{by_shard, rows_by_ids};
use crate::domain::ids::Id;
use crate::domain::shard::ShardIndex;
use crate::domain::workflow::End;
use crate::storage::error::StorageError;
use crate::storage::events;
use crate::storage::pools::{Database, Databases};
use crate::storage::snapshots::{self, Projected};

/// The most executions that one request advances.
pub const MAX_ADVANCE: usize = 1000;
/// Executions whose states are in memory at a time, for each shard of a request.
const AT_ONCE: usize = 100;

/// Bytes of states that one statement stores, unless a single one has more.
const MAX_STORED_BYTES: usize = 4 << 20;

/// The projections' use cases.
#[derive(Debug, Clone)]
pub struct Projections {
    databases: Databases,
}

/// A projection that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advanced {
    /// The highest event id folded.
    pub version: Id,
    /// How many events are folded.
    pub applied_count: i64,
    /// How many of them were not in the snapshot before.
    pub folded: i64,
}

/// What came of each execution that was to be advanced.
pub type Advances = BTreeMap<Id, Result<Advanced, ServiceError>>;

impl Projections {
    /// The projections of a deployment.
    #[must_use]
    pub fn new(databases: Databases) -> Self {
        Self { databases }
    }

    /// The states of these executions as of now, and the shards that could not be read.
    #[tracing::instrument(
        level = "debug", name = "projections.read", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display))
    )]
    pub async fn read(&self, ids: &[Id]) -> (HashMap<Id, Projected>, BTreeMap<ShardIndex, ServiceError>) {
        let query = |shard, ids: Vec<i64>| async move { read(shard, &ids).await };
        let (found, failed) = rows_by_ids(&self.databases, ids.iter().copied(), query).await;
        (found.into_iter().map(|projected| (projected.execution_id, projected)).collect(), failed)
    }

    /// Returns the ends of those executions that ended, with `reasons` also their reasons, and the shards that could not
    /// be read.
    #[tracing::instrument(
        level = "debug", name = "projections.ends", skip_all,
        fields(count = ids.len(), first = ids.first().map(tracing::field::display))
    )]
    pub async fn ends(&self, ids: &[Id], reasons: bool) -> (HashMap<Id, End>, BTreeMap<ShardIndex, ServiceError>) {
        let query = |shard, ids: Vec<i64>| async move { events::ends(shard, &ids, reasons).await };
        let (found, failed) = rows_by_ids(&self.databases, ids.iter().copied(), query).await;
        (found.iter().map(|event| (event.execution_id, End::of(event))).collect(), failed)
    }

    /// Advances 1 to [`MAX_ADVANCE`] executions, each on its own; one that is named twice is advanced once.
    #[tracing::instrument(level = "debug", name = "projections.advance", skip_all)]
    pub async fn advance(&self, ids: impl IntoIterator<Item = Id>) -> Result<Advances, ServiceError> {
        let ids: BTreeSet<Id> = ids.into_iter().collect();
        if ids.is_empty() || ids.len() > MAX_ADVANCE {
            let message = format!("executionIds has {} ids; 1 to {MAX_ADVANCE} are allowed", ids.len());
            return Err(Rejection::invalid("executionIds", message).into());
        }
        let groups = by_shard(&self.databases, ids, |id| *id);
        let shards = groups.into_iter().map(async |(shard, ids)| {
            let (database, mut advances) = (&self.databases.shards()[usize::from(shard)], Advances::new());
            for ids in ids.chunks(AT_ONCE) {
                advances.extend(advance_each(database, ids).await);
            }
            advances
        });
        Ok(join_all(shards).await.into_iter().flatten().collect())
    }
}

async fn read(shard: &Database, ids: &[i64]) -> Result<Vec<Projected>, StorageError> {
    let mut found = Vec::with_capacity(ids.len());
    for ids in ids.chunks(AT_ONCE) {
        found.extend(snapshots::read(shard, ids).await?);
    }
    found.iter().for_each(note_defect);
    Ok(found)
}

/// Together; where that fails, one by one, so that only those fail that must.
async fn advance_each(shard: &Database, ids: &[Id]) -> Advances {
    let error = match advance(shard, ids).await {
        Ok(advances) => return advances,
        Err(error) => error,
    };
    if ids.len() == 1 || error.unavailable().is_some() {
        let error = ServiceError::from(error);
        return ids.iter().map(|id| (*id, Err(error.clone()))).collect();
    }
    let mut advances = Advances::new();
    for id in ids {
        let alone = advance(shard, &[*id]).await;
        advances.extend(alone.unwrap_or_else(|error| Advances::from([(*id, Err(error.into()))])));
    }
    advances
}

async fn advance(shard: &Database, ids: &[Id]) -> Result<Advances, StorageError> {
    let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
    let found = read(shard, &ids).await?;
    fault::reach("advance.read");
    let mut advances: Advances = found.iter().map(|one| (one.execution_id, outcome(one))).collect();
    let stale = |one: &Projected| one.projection.is_execution() && (one.folded > 0 || one.snapshot.is_none());
    let stale: Vec<Projected> = found.into_iter().filter(stale).collect();
    for group in groups(stale) {
        for (id, error) in save(shard, &group).await {
            advances.insert(id, Err(error.into()));
        }
    }
    Ok(advances)
}

/// In groups that one statement stores well within its deadline; a large state is alone.
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

/// Together; where that fails, one by one. Answers those that could not be stored.
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
    let unknown = || Rejection::not_found("executionIds", format!("there is no execution {execution_id}"));
    let version = version.ok_or_else(unknown)?;
    metrics::counter!("noetl_projection_events_folded_total").increment(u64::try_from(*folded).unwrap_or_default());
    Ok(Advanced { version, applied_count: projection.applied_count, folded: *folded })
}

fn note_defect(projected: &Projected) {
    let Some(defect) = projected.defect else { return };
    metrics::counter!("noetl_snapshots_ignored_total", "reason" => defect.as_str()).increment(1);
    tracing::warn!(
        execution_id = %projected.execution_id,
        reason = defect.as_str(),
        "a stored snapshot is not used; the state comes from the whole log"
    );
}

//! Creating executions on their shards: those of requests, and those of claims that another call reserved.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::future::join_all;

use super::Executions;
use super::claims::settle;
use crate::bisection::{Bisection, Cause, not_tried};
use crate::moves::repeated_for_each;
use crate::shards::by_shard;
use chrono::{DateTime, Utc};
use noetl_domain::actor::Actor;
use noetl_domain::execution::Creation;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_runtime::clock;
use noetl_runtime::coalesce::SharedWork;
use noetl_runtime::wake::WakeUps;
use noetl_storage::budget::uncharged;
use noetl_storage::dedup::{self, ReservedClaim};
use noetl_storage::executions;
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;

/// Size in bytes from which a page of reserved requests ends.
const PAGE_BYTES: i64 = 4 << 20;

/// Errors of the executions that may not exist, by their ids.
pub(super) type Failures = HashMap<Id, ServiceError>;

/// Executions that were to be created.
#[derive(Debug, Default)]
pub(super) struct Creations {
    /// Start times of the executions that were created.
    pub(super) started: HashMap<Id, DateTime<Utc>>,
    /// Errors of the executions that may not exist. An execution that is neither here nor in `started` existed before.
    pub(super) failed: Failures,
}

/// Creates executions on one shard. Concurrent calls share the statements.
pub(super) struct CreateBatches {
    pub(super) shard: ShardIndex,
    pub(super) database: Arc<Database>,
    pub(super) wake_ups: WakeUps,
}

impl SharedWork for CreateBatches {
    type Caller = Option<Actor>;
    type Kind = ();
    type Item = Arc<Creation>;
    /// Start time of the execution if it was created; `None`: it existed before.
    type Output = Result<Option<DateTime<Utc>>, ServiceError>;
    type Error = ServiceError;

    /// Creates the executions in one statement. If the database refuses some of them, the others are created.
    async fn carry_out(&self, (): &(), items: Vec<Arc<Creation>>, _: bool) -> Result<Vec<Self::Output>, ServiceError> {
        // Each execution once, and all callers in the same order: two calls that create the same executions don't
        // deadlock.
        let distinct: BTreeMap<Id, &Creation> = items.iter().map(|one| (one.execution_id, one.as_ref())).collect();
        let distinct: Vec<&Creation> = distinct.into_values().collect();
        let (mut search, mut started, mut failed) = (Bisection::of(distinct.len()), HashMap::new(), Failures::new());
        while let Some(part) = search.next_part() {
            let created = executions::create(&self.database, &distinct[part.clone()], clock::snowflake_ms()).await;
            let recorded = created.map(|executions::Creations { created, taken }| {
                started.extend(created.into_iter().map(|row| (row.execution_id, row.start_time)));
                failed.extend(taken.into_iter().map(Id::new).map(|id| (id, ServiceError::IdTaken(id))));
            });
            search.record(part, recorded);
        }
        if !started.is_empty() {
            self.wake_ups.wake_feed(self.shard);
            self.wake_ups.wake_outbox(self.shard);
        }
        for unwritten in search.unwritten(&self.database) {
            let error = match unwritten.cause {
                Cause::Failed(error) if unwritten.positions.len() == distinct.len() => return Err(error.into()),
                Cause::Refused(error) | Cause::Failed(error) => error.into(),
                Cause::NotTried => not_tried(&self.database),
            };
            let ids = unwritten.positions.into_iter().map(|position| distinct[position].execution_id);
            failed.extend(ids.map(|id| (id, error.clone())));
        }
        let outcome = |creation: &Arc<Creation>| match failed.get(&creation.execution_id) {
            Some(error) => Err(error.clone()),
            None => Ok(started.get(&creation.execution_id.get()).copied()),
        };
        Ok(items.iter().map(outcome).collect())
    }

    fn may_be_caused_by_one_call(error: &ServiceError) -> bool {
        error.unavailable().is_none() || error.bucket_moves().is_some()
    }
}

impl Executions {
    /// Creates executions on their shards, in parallel. Executions that exist are skipped. Those of buckets that are being
    /// moved are created when the move allows it.
    pub(super) async fn create(&self, creations: Vec<Arc<Creation>>, actor: Option<&Actor>) -> Creations {
        let mut created = Creations::default();
        let create = |creations| self.create_once(creations, actor);
        for (creation, outcome) in repeated_for_each(&self.databases, creations, create).await {
            match outcome {
                Ok(started) => created.started.extend(started.map(|at| (creation.execution_id, at))),
                Err(error) => drop(created.failed.insert(creation.execution_id, error)),
            }
        }
        created
    }

    /// Creates executions on their shards. Returns the outcome of each, as [`CreateBatches`] does.
    async fn create_once(
        &self,
        creations: Vec<Arc<Creation>>,
        actor: Option<&Actor>,
    ) -> Vec<(Arc<Creation>, <CreateBatches as SharedWork>::Output)> {
        let groups = by_shard(&self.databases, creations, |creation| creation.execution_id);
        let created = groups.into_iter().map(async |(shard, group)| {
            let bytes = group.iter().map(|one| one.weight()).sum();
            let outcomes = self.creations[usize::from(shard)].run(actor.cloned(), (), group.clone(), bytes).await;
            let outcomes = outcomes.unwrap_or_else(|error| vec![Err(error); group.len()]);
            group.into_iter().zip(outcomes)
        });
        join_all(created).await.into_iter().flatten().collect()
    }

    /// Creates the executions of reserved claims and settles the claims, page by page, so that the requests in memory
    /// are bounded. An execution without a reserved claim is skipped: its claim was settled since.
    pub(super) async fn finish(&self, executions: &[Id]) -> Failures {
        let ids: Vec<i64> = executions.iter().map(|id| id.get()).collect();
        let (mut rest, mut failed) = (ids.as_slice(), Failures::new());
        while !rest.is_empty() {
            let page = match uncharged(dedup::reserved(self.databases.cluster(), rest, PAGE_BYTES)).await {
                Ok(page) => page,
                Err(error) => {
                    let error = ServiceError::from(error);
                    failed.extend(rest.iter().map(|id| (Id::new(*id), error.clone())));
                    break;
                }
            };
            rest = rest.get(page.looked_up.max(1)..).unwrap_or_default();
            failed.extend(self.finish_page(page.claims).await);
        }
        failed
    }

    async fn finish_page(&self, claims: Vec<ReservedClaim>) -> Failures {
        let (mut creations, mut failed) = (Vec::new(), Failures::new());
        for ReservedClaim { execution_id, creation } in claims {
            match creation {
                Ok(creation) => creations.push(Arc::new(creation)),
                Err(error) => drop(failed.insert(execution_id, error.into())),
            }
        }
        let ids: Vec<Id> = creations.iter().map(|creation| creation.execution_id).collect();
        failed.extend(self.create(creations, None).await.failed);
        self.free_taken(&failed).await;
        let created = ids.into_iter().filter(|id| !failed.contains_key(id));
        settle(self.databases.cluster(), &created.map(Id::get).collect::<Vec<i64>>()).await;
        failed
    }
}

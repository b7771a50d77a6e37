//! Executions: start (with an opt-in dedup window), cancel, read.
//!
//! A start reads from top to bottom in [`execute`]; [`ExecuteRequest`] has the request and its validation, and [`dedup`]
//! the steps for requests with a dedup key; [`defaults`] has the values from catalog documents; [`start`] has what a
//! request starts, and [`create`] creates it. [`rerun`] makes such requests from earlier executions ([`origins`]).
//! [`sweep`] finishes the claims of crashed callers. [`select`] finds the executions of bulk operations.
//!
//! [`ExecuteRequest`]: noetl_use_cases::executions::ExecuteRequest

mod audits;
mod cancel;
mod cancel_tree;
mod cancel_walk;
mod claims;
mod create;
mod dedup;
mod defaults;
mod execute;
mod history;
mod logs;
mod of_owners;
mod origins;
mod read;
mod rerun;
mod select;
mod start;
mod step_stats;
mod sweep;

use std::sync::Arc;

use moka::future::Cache;

use super::catalog::Catalog;
use super::ids::Ids;
use super::projections::Projections;
use audits::AuditBatches;
use claims::{ClaimBatches, SettleBatches};
use create::CreateBatches;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_runtime::coalesce::Coalescer;
use noetl_runtime::wake::WakeUps;
use noetl_storage::events::FirstEvent;
use noetl_storage::pools::{Database, Databases};

pub(crate) use sweep::STALE_CLAIM_SECONDS;

/// Capacity in bytes of the cache of log heads: about 30,000 heads. All messages of a subscription share the head of their
/// parent's log, so few heads are read again.
const CACHED_HEADS_BYTES: u64 = 8 << 20;

/// Use cases of executions.
#[derive(Debug, Clone)]
pub struct Executions {
    databases: Databases,
    ids: Arc<Ids>,
    catalog: Catalog,
    wake_ups: WakeUps,
    projections: Projections,
    heads: Cache<Id, Arc<FirstEvent>>,
    claims: Coalescer<ClaimBatches>,
    /// By shard.
    creations: Arc<[Coalescer<CreateBatches>]>,
    settlements: Coalescer<SettleBatches>,
    audits: Coalescer<AuditBatches>,
}

impl Executions {
    /// Creates the use cases.
    #[must_use]
    pub fn new(databases: Databases, ids: Arc<Ids>, catalog: Catalog, wake_ups: WakeUps) -> Self {
        let weight = |_: &Id, head: &Arc<FirstEvent>| {
            let trace = head.trace.as_ref().map_or(0, |trace| trace.as_str().len());
            let pool = head.execution_pool.as_ref().map_or(0, String::len);
            let labels = head.labels.as_ref().map_or(0, |labels| labels.as_str().len());
            let actor = head.actor.as_ref().map_or(0, String::len);
            let owner = head.tenant_id.len() + head.organization_id.len();
            u32::try_from(trace + pool + labels + actor + owner + 256).unwrap_or(u32::MAX)
        };
        let heads = Cache::builder().max_capacity(CACHED_HEADS_BYTES).weigher(weight).build();
        let projections = Projections::new(databases.clone(), catalog.clone());
        let cluster = || Arc::clone(databases.cluster());
        let creation = |(shard, database): (ShardIndex, &Arc<Database>)| {
            Coalescer::new(CreateBatches { shard, database: Arc::clone(database), wake_ups: wake_ups.clone() })
        };
        let audits = AuditBatches { databases: databases.clone(), ids: Arc::clone(&ids), wake_ups: wake_ups.clone() };
        Self {
            claims: Coalescer::new(ClaimBatches { cluster: cluster() }),
            creations: (0..).zip(databases.shards()).map(creation).collect(),
            settlements: Coalescer::new(SettleBatches { cluster: cluster() }),
            audits: Coalescer::new(audits),
            databases,
            ids,
            catalog,
            wake_ups,
            projections,
            heads,
        }
    }
}

//! Executions: start (with an opt-in dedup window), cancel, read.
//!
//! A start has these steps: validate, resolve the catalog entry and the parent, make ids, claim, create, settle. An
//! invalid request never uses up a key. The claim is reserved in the cluster database under the future execution's id,
//! the execution is created idempotently on its shard under that id, and then the claim is settled. If the process dies
//! between two steps, the next duplicate or [`Executions::sweep`] finishes the reserved claim.

mod answer;
mod cancel;
mod claims;
mod read;
mod request;
mod resolve;
mod start;

use std::sync::Arc;

use moka::future::Cache;

use super::catalog::Catalog;
use super::ids::Ids;
use crate::runtime::wake::WakeUps;
use noetl_domain::ids::Id;
use noetl_storage::events::FirstEvent;
use noetl_storage::pools::Databases;

pub use answer::{Answer, Executed, Outcome};
pub use request::{Dedup, ExecuteRequest, MAX_BATCH, MAX_WORKLOAD_BYTES};

/// Capacity in bytes of the cache of log heads. All messages of a subscription share the head of their parent's log.
const CACHED_HEADS_BYTES: u64 = 32 << 20;

/// Use cases of executions.
#[derive(Debug, Clone)]
pub struct Executions {
    databases: Databases,
    ids: Arc<Ids>,
    catalog: Catalog,
    wake_ups: WakeUps,
    heads: Cache<Id, Arc<FirstEvent>>,
}

impl Executions {
    /// Creates the use cases.
    #[must_use]
    pub fn new(databases: Databases, ids: Arc<Ids>, catalog: Catalog, wake_ups: WakeUps) -> Self {
        let weight = |_: &Id, head: &Arc<FirstEvent>| {
            let trace = head.trace.as_ref().map_or(0, |trace| trace.as_str().len());
            u32::try_from(trace + 256).unwrap_or(u32::MAX)
        };
        let heads = Cache::builder().max_capacity(CACHED_HEADS_BYTES).weigher(weight).build();
        Self { databases, ids, catalog, wake_ups, heads }
    }
}

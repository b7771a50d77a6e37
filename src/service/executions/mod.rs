//! Executions: start (with an opt-in dedup window), cancel, read.
//!
//! Order of a start: validate, resolve the catalog and the parent, reserve ids, claim, create, settle. A bad request
//! never burns a key. A claim is reserved in the cluster database under the id that the execution will have, the
//! execution is created on its shard idempotently under that id, and the claim is settled; a process that dies between
//! two steps leaves a reserved claim that the next duplicate, or [`Executions::sweep`], finishes.

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
use super::wake::Wakes;
use crate::domain::ids::Id;
use crate::storage::events::LogHead;
use crate::storage::pools::Databases;

pub use answer::{Answer, Executed, Outcome};
pub use request::{Dedup, ExecuteRequest, MAX_BATCH, MAX_WORKLOAD_BYTES};

/// Bytes of logs' heads that are kept: a subscription's messages share their parent's.
const CACHED_HEADS_BYTES: u64 = 32 << 20;

/// The executions' use cases.
#[derive(Debug, Clone)]
pub struct Executions {
    databases: Databases,
    ids: Arc<Ids>,
    catalog: Catalog,
    wakes: Wakes,
    heads: Cache<Id, Arc<LogHead>>,
}

impl Executions {
    /// The executions of a deployment.
    #[must_use]
    pub fn new(databases: Databases, ids: Arc<Ids>, catalog: Catalog, wakes: Wakes) -> Self {
        let weight = |_: &Id, head: &Arc<LogHead>| {
            let trace = head.trace.as_ref().map_or(0, |trace| trace.as_str().len());
            u32::try_from(trace + 256).unwrap_or(u32::MAX)
        };
        let heads = Cache::builder().max_capacity(CACHED_HEADS_BYTES).weigher(weight).build();
        Self { databases, ids, catalog, wakes, heads }
    }
}

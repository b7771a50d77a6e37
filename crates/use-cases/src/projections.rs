//! Projections of executions. A read folds the current state; an advance also stores it as a snapshot, so that the next
//! read has fewer events to fold.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;

use async_trait::async_trait;
use serde_json::Value;

use crate::error::{ReadFailures, ServiceError};
use noetl_domain::ids::Id;
use noetl_domain::projection::Moment;
use noetl_domain::tenant::Scope;
use noetl_domain::workflow::End;
use noetl_storage::executions::ExecutionRow;
use noetl_storage::snapshots::{LoopOfState, Projected};

/// Maximum number of ids in one request to advance.
pub const MAX_ADVANCE: usize = 1000;

/// Result of an advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advanced {
    /// Highest event id folded.
    pub version: Id,
    /// Number of events folded in total.
    pub applied_count: i64,
    /// Number of events that were not in the previous snapshot.
    pub folded: i64,
}

/// Results of an advance, by execution.
pub type Advances = BTreeMap<Id, Result<Advanced, ServiceError>>;

/// Reading states of executions.
#[async_trait]
pub trait ReadProjections: Debug + Send + Sync {
    /// Returns the current states of these executions in the scope, and the errors of those that could not be read.
    async fn read(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, Projected>, ReadFailures);

    /// Returns the state of an execution in the scope at a moment of its history; `Ok(None)`: it had no event yet.
    async fn at(&self, id: Id, moment: Moment, scope: &Scope) -> Result<Option<Projected>, ServiceError>;

    /// Returns the results of the iterations of loops whose states do not contain them, in the order of the loops. A loop
    /// whose shard can't be read has the error of the shard.
    async fn loop_results(&self, loops: &[LoopOfState<'_>]) -> Vec<Result<Option<Value>, ServiceError>>;

    /// Returns which of these rows of the list lack events of their logs, and the errors of those for which it could not
    /// be found out.
    async fn outdated(&self, rows: &[&ExecutionRow]) -> (BTreeSet<Id>, ReadFailures);

    /// Returns the ends of the executions in the scope whose logs have an ending event, as these events describe them, and
    /// the errors of those that could not be read.
    async fn ends(&self, ids: &[Id], scope: &Scope) -> (HashMap<Id, End>, ReadFailures);
}

/// Storing states of executions.
#[async_trait]
pub trait AdvanceProjections: Debug + Send + Sync {
    /// Advances executions. One that is not in the scope is not found. One failure does not stop the others.
    async fn advance(&self, ids: BTreeSet<Id>, scope: &Scope) -> Advances;
}

/// All use cases of projections.
pub trait Projections: ReadProjections + AdvanceProjections {}

impl<T: ReadProjections + AdvanceProjections> Projections for T {}

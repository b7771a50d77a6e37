//! Claims of dedup keys. Concurrent requests share the statements.

use std::collections::HashMap;
use std::sync::Arc;

use super::start::DedupKey;
use noetl_domain::actor::Actor;
use noetl_domain::dedup_claims::{KeyRequest, claimants};
use noetl_domain::execution::Creation;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::coalesce::SharedWork;
use noetl_storage::dedup::{self, CurrentClaim, NewClaim};
use noetl_storage::lock_wait::LockWait;
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;

/// Claim of a key for the requests of one call that have it.
#[derive(Debug, Clone)]
pub(super) struct KeyClaim {
    pub(super) key: DedupKey,
    pub(super) request_hash: [u8; 32],
    pub(super) window_seconds: i32,
    /// Number of further requests with the same key in the call.
    pub(super) repeated: i64,
    /// The execution that the first request starts.
    pub(super) creation: Arc<Creation>,
    /// Whether the catalog entry was not read, so that the claim must confirm that it is the newest of its path.
    pub(super) must_be_newest: bool,
}

/// Claims keys in the cluster database.
pub(super) struct ClaimBatches {
    pub(super) cluster: Arc<Database>,
}

impl SharedWork for ClaimBatches {
    type Caller = Option<Actor>;
    type Kind = ();
    type Item = KeyClaim;
    /// Claim that holds the key; `None`: the catalog entry is not the newest of its path.
    type Output = Option<CurrentClaim>;
    type Error = ServiceError;

    /// Claims each key for the first call that has it. The requests of the other calls are duplicates.
    async fn carry_out(&self, (): &(), items: Vec<KeyClaim>, shared: bool) -> Result<Vec<Self::Output>, ServiceError> {
        let claims = distinct(&items);
        let current = dedup::claim(&self.cluster, &claims, LockWait::of(shared)).await?;
        let current: HashMap<(i64, &str), &CurrentClaim> =
            current.iter().map(|claim| ((claim.scope, claim.key.as_str()), claim)).collect();
        let of = |claim: &KeyClaim| current.get(&(claim.key.scope, claim.key.key.as_str())).copied().cloned();
        Ok(items.iter().map(of).collect())
    }

    fn may_be_caused_by_one_call(error: &ServiceError) -> bool {
        error.unavailable().is_none()
    }
}

/// Returns one claim for each key, in the order of the keys.
fn distinct(items: &[KeyClaim]) -> Vec<NewClaim<'_>> {
    let claimants = claimants(items.iter().map(KeyClaim::request));
    claimants.into_iter().map(|claimant| items[claimant.index].as_new(claimant.repeated)).collect()
}

impl KeyClaim {
    fn request(&self) -> KeyRequest<&DedupKey> {
        KeyRequest { key: &self.key, repeated: self.repeated, must_be_newest: self.must_be_newest }
    }

    /// Returns the claim, with the number of further requests with the key.
    fn as_new(&self, repeated: i64) -> NewClaim<'_> {
        NewClaim {
            scope: self.key.scope,
            key: &self.key.key,
            request_hash: self.request_hash,
            window_seconds: self.window_seconds,
            repeated,
            creation: &self.creation,
            must_be_newest: self.must_be_newest,
        }
    }
}

/// Settles claims in the cluster database.
pub(super) struct SettleBatches {
    pub(super) cluster: Arc<Database>,
}

impl SharedWork for SettleBatches {
    type Caller = ();
    type Kind = ();
    type Item = i64;
    type Output = ();
    type Error = ServiceError;

    async fn carry_out(&self, (): &(), executions: Vec<i64>, _: bool) -> Result<Vec<()>, ServiceError> {
        settle(&self.cluster, &executions).await;
        noetl_runtime::crash_point::reach("execute.settled");
        Ok(vec![(); executions.len()])
    }

    fn may_be_caused_by_one_call(_: &ServiceError) -> bool {
        false
    }
}

/// Settles the claims of these executions. If that fails, the next duplicate or the sweeper settles them.
pub(super) async fn settle(cluster: &Database, executions: &[i64]) {
    if executions.is_empty() {
        return;
    }
    if let Err(error) = dedup::settle(cluster, executions).await {
        tracing::warn!(error = %WithCauses(&error), claims = executions.len(), "could not settle dedup claims; the sweeper will");
    }
}

//! Claims of dedup keys. Concurrent requests share the statements.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use super::start::DedupKey;
use noetl_domain::actor::Actor;
use noetl_domain::execution::Creation;
use noetl_runtime::causes::WithCauses;
use noetl_runtime::coalesce::Flight;
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
pub(super) struct ClaimFlight {
    pub(super) cluster: Arc<Database>,
}

impl Flight for ClaimFlight {
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

/// Returns one claim for each key, in the order of the keys: that of the first call that has the key. If that claim must
/// have the newest catalog entry and a later one was read, the later one takes its place. It can't be left out because a
/// cache is outdated.
fn distinct(items: &[KeyClaim]) -> Vec<NewClaim<'_>> {
    let mut distinct: BTreeMap<&DedupKey, NewClaim<'_>> = BTreeMap::new();
    for item in items {
        let mut claim = item.as_new();
        match distinct.entry(&item.key) {
            Entry::Vacant(entry) => drop(entry.insert(claim)),
            Entry::Occupied(mut entry) => {
                let kept = entry.get_mut();
                let repeated = kept.repeated + claim.repeated + 1;
                if kept.must_be_newest && !claim.must_be_newest {
                    std::mem::swap(kept, &mut claim);
                }
                kept.repeated = repeated;
            }
        }
    }
    distinct.into_values().collect()
}

impl KeyClaim {
    fn as_new(&self) -> NewClaim<'_> {
        NewClaim {
            scope: self.key.scope,
            key: &self.key.key,
            request_hash: self.request_hash,
            window_seconds: self.window_seconds,
            repeated: self.repeated,
            creation: &self.creation,
            must_be_newest: self.must_be_newest,
        }
    }
}

/// Settles claims in the cluster database.
pub(super) struct SettleFlight {
    pub(super) cluster: Arc<Database>,
}

impl Flight for SettleFlight {
    type Caller = ();
    type Kind = ();
    type Item = i64;
    type Output = ();
    type Error = ServiceError;

    /// Settles the claims of these executions. If that fails, the next duplicate or the sweeper settles them.
    async fn carry_out(&self, (): &(), executions: Vec<i64>, _: bool) -> Result<Vec<()>, ServiceError> {
        if let Err(error) = dedup::settle(&self.cluster, &executions).await {
            tracing::warn!(error = %WithCauses(&error), claims = executions.len(), "could not settle dedup claims; the sweeper will");
        }
        noetl_runtime::crash_point::reach("execute.settled");
        Ok(vec![(); executions.len()])
    }

    fn may_be_caused_by_one_call(_: &ServiceError) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use noetl_domain::ids::Id;
    use noetl_domain::labels::Labels;
    use noetl_domain::tenant::Tenancy;
    use serde_json::Map;

    use super::*;

    fn claim(key: &str, execution: i64, must_be_newest: bool, repeated: i64) -> KeyClaim {
        let creation = Creation {
            execution_id: Id::new(execution),
            event_id: Id::new(execution + 1),
            parent_execution_id: None,
            catalog_id: Id::new(1),
            path: "process".to_owned(),
            workload: Map::new(),
            pool: None,
            trace: None,
            emitted_at: DateTime::UNIX_EPOCH,
            actor: None,
            tenancy: Tenancy::default(),
            rerun_of: None,
            labels: Labels::default(),
            dedup: None,
        };
        let key = DedupKey { scope: 0, key: key.to_owned() };
        let creation = Arc::new(creation);
        KeyClaim { key, request_hash: [0; 32], window_seconds: 60, repeated, creation, must_be_newest }
    }

    /// Returns key, execution and number of further requests of each claim.
    fn distinct_of(claims: &[KeyClaim]) -> Vec<(&str, i64, i64)> {
        distinct(claims).iter().map(|one| (one.key, one.creation.execution_id.get(), one.repeated)).collect()
    }

    #[test]
    fn the_first_call_with_a_key_claims_it_and_the_others_are_counted() {
        let claims = [claim("b", 1, true, 0), claim("a", 2, true, 3), claim("b", 3, true, 2), claim("b", 4, true, 0)];
        assert_eq!(distinct_of(&claims), [("a", 2, 3), ("b", 1, 4)]);
    }

    #[test]
    fn a_claim_whose_entry_was_read_is_not_left_out_because_of_an_outdated_cache() {
        let claims = [claim("a", 1, true, 0), claim("a", 2, false, 1), claim("a", 3, false, 0), claim("a", 4, true, 0)];
        assert_eq!(distinct_of(&claims), [("a", 2, 4)]);
        assert!(!distinct(&claims)[0].must_be_newest);
    }
}

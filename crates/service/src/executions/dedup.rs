//! Dedup keys of executions: claiming them, settling the claims, auditing the duplicates, and reading a claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;

use super::Executions;
use super::audits::{self, AuditedDuplicate};
use super::claims::KeyClaim;
use super::create::Failures;
use super::start::{DedupKey, Results, Start};
use crate::shards::by_shard;
use noetl_domain::execution::{Creation, dedup_scope};
use noetl_domain::ids::Id;
use noetl_domain::partition::may_be_dropped;
use noetl_domain::tenant::{Caller, DEFAULT, Scope};
use noetl_runtime::causes::WithCauses;
use noetl_runtime::clock;
use noetl_storage::check;
use noetl_storage::dedup::{self, ClaimRow, CurrentClaim};
use noetl_storage::error::StorageError;
use noetl_storage::executions::ExecutionRow;
use noetl_storage::pools::Database;
use noetl_use_cases::error::{Rejection, RejectionCode, ServiceError};
use noetl_use_cases::executions::{ReadDedupClaims, check_key};

/// An execution, and the requests for it.
#[derive(Debug)]
pub(super) struct ClaimedExecution {
    pub(super) execution_id: Id,
    /// The execution to create; `None`: it belongs to another call.
    pub(super) creation: Option<Arc<Creation>>,
    /// Row of the execution, if this call created it.
    pub(super) created: Option<ExecutionRow>,
    /// Whether another call reserved the key, so that the execution may not exist yet.
    pub(super) reserved: bool,
    /// A repetition of the request whose claim is settled. With it, the execution is created again if its shard lost it.
    pub(super) repeated: Option<Arc<Creation>>,
    /// Position of the request that starts the execution; `None`: a request of another call starts it.
    pub(super) starter: Option<usize>,
    /// The duplicate requests.
    pub(super) duplicates: Vec<Duplicate>,
    /// Key under which the execution was claimed.
    key: Option<DedupKey>,
}

/// A request whose dedup key belongs to the execution of another request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Duplicate {
    pub(super) position: usize,
    /// Whether it differs from the request that started the execution; `None`: that request is unknown.
    pub(super) differs: Option<bool>,
}

#[async_trait]
impl ReadDedupClaims for Executions {
    #[tracing::instrument(
        level = "debug", name = "executions.dedup_claim", skip_all,
        fields(parent = parent.map(tracing::field::display))
    )]
    async fn dedup_claim(
        &self,
        field: &str,
        parent: Option<Id>,
        key: &str,
        scope: &Scope,
    ) -> Result<Option<ClaimRow>, ServiceError> {
        check_key(field, key)?;
        // A claim belongs to the tenant of its parent.
        if let Some(parent) = parent.filter(|_| *scope != Scope::Unrestricted) {
            let (heads, failed) = self.heads([parent], scope).await;
            if let Some(error) = failed.into_values().next() {
                return Err(error);
            }
            if heads.is_empty() {
                return Ok(None);
            }
        }
        let claimed_in = dedup_scope(parent, scope.tenant().unwrap_or(DEFAULT));
        Ok(dedup::find(self.databases.cluster(), claimed_in, key).await?)
    }
}

impl Executions {
    /// Claims the dedup keys of the requests that have one. Returns the executions to create, and adds the results of
    /// requests that fail here to `results`. Adds the positions of requests whose catalog entry is not the newest to
    /// `outdated`; nothing was done for them.
    pub(super) async fn claim(
        &self,
        starts: Vec<Start>,
        results: &mut Results,
        outdated: &mut BTreeSet<usize>,
        caller: &Caller,
    ) -> Vec<ClaimedExecution> {
        let (mut claimed, mut groups) = (Vec::new(), BTreeMap::<DedupKey, Vec<Start>>::new());
        for start in starts {
            match start.key.clone() {
                Some(key) => groups.entry(key).or_default().push(start),
                None => claimed.push(ClaimedExecution {
                    execution_id: start.creation.execution_id,
                    creation: Some(start.creation),
                    created: None,
                    reserved: false,
                    repeated: None,
                    starter: Some(start.position),
                    duplicates: Vec::new(),
                    key: None,
                }),
            }
        }
        if groups.is_empty() {
            return claimed;
        }
        let claims: Vec<KeyClaim> = groups.iter().filter_map(|(key, group)| claim_of(key, group)).collect();
        let bytes = claims.iter().map(|claim| claim.creation.weight()).sum();
        match self.claims.run(caller.actor.clone(), (), claims, bytes).await {
            Ok(claims) => {
                for ((key, group), claim) in groups.into_iter().zip(claims) {
                    match claim {
                        Some(claim) => claimed.push(classify_requests(key, group, claim, results)),
                        None if group.iter().any(|start| start.must_be_newest) => {
                            outdated.extend(group.iter().map(|start| start.position));
                        }
                        None => fail(&group, &conflict_without_row(&key).into(), results),
                    }
                }
            }
            Err(error) => groups.values().for_each(|group| fail(group, &error, results)),
        }
        claimed
    }

    /// Plans the creation of executions that their shards have lost, in a failover for example, although their claims are
    /// settled: the request is there again. The response to a repetition does not depend on the shard otherwise, so one
    /// that can't be reached is skipped. An execution that retention may have dropped is not created again.
    pub(super) async fn recreate_lost(&self, claimed: &mut [ClaimedExecution]) {
        let repeated = claimed.iter().filter(|one| one.repeated.is_some()).map(|one| one.execution_id.get());
        let by_shard = by_shard(&self.databases, repeated, |id| Id::new(*id));
        let lost = join_all(by_shard.into_iter().map(async |(shard, ids)| {
            let shard = &self.databases.shards()[usize::from(shard)];
            lost(shard, &ids).await.unwrap_or_else(|error| {
                tracing::debug!(database = %shard.name(), %error, "repeated executions can't be looked up now");
                Vec::new()
            })
        }));
        for id in lost.await.into_iter().flatten() {
            let of_lost = claimed.iter_mut().filter(|one| one.execution_id.get() == id);
            for (one, repeated) in of_lost.filter_map(|one| one.repeated.take().map(|repeated| (one, repeated))) {
                tracing::warn!(execution = id, "creates an execution again that its shard has lost");
                let execution_id = one.execution_id;
                one.creation = Some(Arc::new(Creation { execution_id, ..Arc::unwrap_or_clone(repeated) }));
            }
        }
    }

    /// Settles the claims whose executions are created, in the background. If that fails, the next duplicate or the
    /// sweeper settles them.
    pub(super) fn settle(&self, claimed: &[ClaimedExecution], failed: &Failures) {
        let own = claimed.iter().filter(|one| one.key.is_some() && one.creation.is_some());
        let created = own.map(|one| one.execution_id).filter(|id| !failed.contains_key(id));
        let created: Vec<i64> = created.map(Id::get).collect();
        let count = created.len();
        if count > 0 && !self.settlements.submit((), (), created, 0) {
            tracing::warn!(claims = count, "too many dedup claims wait to be settled; the sweeper will settle these");
        }
    }

    /// Frees the keys of executions whose ids are taken, so that a repetition of the request starts another one.
    pub(super) async fn free_taken(&self, failed: &Failures) {
        let taken = failed.iter().filter(|(_, error)| matches!(error, ServiceError::IdTaken(_)));
        let taken: Vec<i64> = taken.map(|(id, _)| id.get()).collect();
        if taken.is_empty() {
            return;
        }
        tracing::error!(executions = ?taken, "another program has used ids of new executions; see docs/design/ids.md");
        if let Err(error) = dedup::free(self.databases.cluster(), &taken).await {
            tracing::warn!(error = %WithCauses(&error), claims = taken.len(), "could not free dedup claims; the sweeper will");
        }
    }

    /// Writes an audit event for each duplicate to its subscription's log, in the background.
    pub(super) fn audit_duplicates(&self, claimed: &[ClaimedExecution], caller: &Caller) {
        let mut by_scope: BTreeMap<i64, Vec<AuditedDuplicate>> = BTreeMap::new();
        for one in claimed {
            let Some(key) = one.key.as_ref().filter(|key| key.scope > 0) else { continue };
            for duplicate in &one.duplicates {
                by_scope.entry(key.scope).or_default().push(AuditedDuplicate {
                    key: key.key.clone(),
                    execution_id: one.execution_id,
                    differs: duplicate.differs == Some(true),
                    actor: caller.actor.clone(),
                    at: clock::now(),
                });
            }
        }
        for (scope, duplicates) in by_scope {
            let (subscription, count) = (Id::new(scope), duplicates.len());
            if !self.audits.submit(subscription, subscription, duplicates, 0) {
                audits::lost(count);
                tracing::warn!(%subscription, count, "too many audit events of duplicates wait to be written");
            }
        }
    }

    /// Waits until the claims are settled and the audit events are written for which no request waits. No request may
    /// follow.
    pub async fn finish_background(&self) {
        self.settlements.finish().await;
        self.audits.finish().await;
    }
}

/// Returns which of these executions do not exist, without those that retention may have dropped.
async fn lost(shard: &Database, ids: &[i64]) -> Result<Vec<i64>, StorageError> {
    let absent = check::executions::absent(shard, ids).await?;
    if absent.is_empty() {
        return Ok(absent);
    }
    let partitions = check::partitions(shard).await?;
    Ok(absent.into_iter().filter(|id| !may_be_dropped(&partitions, *id)).collect())
}

/// Returns the claim of a key for the requests that have it.
fn claim_of(key: &DedupKey, group: &[Start]) -> Option<KeyClaim> {
    let first = group.first()?;
    Some(KeyClaim {
        key: key.clone(),
        request_hash: first.request_hash,
        window_seconds: first.window_seconds,
        repeated: i64::try_from(group.len() - 1).unwrap_or(i64::MAX),
        creation: Arc::clone(&first.creation),
        must_be_newest: first.must_be_newest,
    })
}

/// Compares the requests under one key with the claim that holds the key: one may start the execution, the others are
/// duplicates. A different request fails if it asks for that.
fn classify_requests(key: DedupKey, group: Vec<Start>, claim: CurrentClaim, results: &mut Results) -> ClaimedExecution {
    let execution_id = claim.execution_id;
    let (mut creation, mut repeated, mut starter, mut duplicates) = (None, None, None, Vec::new());
    for start in group {
        let differs = claim.request_hash.as_ref().map(|hash| *hash != start.request_hash);
        if start.creation.execution_id == execution_id {
            (creation, starter) = (Some(start.creation), Some(start.position));
        } else if start.rejects_different && differs == Some(true) {
            results.insert(start.position, Err(mismatch(&key, execution_id).into()));
        } else {
            duplicates.push(Duplicate { position: start.position, differs });
            if !claim.reserved && differs == Some(false) {
                repeated = Some(start.creation);
            }
        }
    }
    let reserved = claim.reserved && creation.is_none();
    ClaimedExecution { execution_id, creation, created: None, reserved, repeated, starter, duplicates, key: Some(key) }
}

fn fail(group: &[Start], error: &ServiceError, results: &mut Results) {
    results.extend(group.iter().map(|one| (one.position, Err(error.clone()))));
}

fn mismatch(key: &DedupKey, owner: Id) -> Rejection {
    let message =
        format!("the dedup key {} belongs to execution {owner}, which a different request started", shown(key));
    Rejection::new(RejectionCode::IdempotencyMismatch, "dedup.key", message)
}

fn conflict_without_row(key: &DedupKey) -> Rejection {
    Rejection::invalid("dedup.key", format!("the dedup key {} can't be claimed", shown(key)))
}

/// Returns the start of a key for a message.
fn shown(key: &DedupKey) -> String {
    format!("{:?}", key.key.chars().take(64).collect::<String>())
}

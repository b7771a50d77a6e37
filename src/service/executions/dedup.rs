//! Dedup keys of executions: claiming them, settling the claims, auditing the duplicates, and reading a claim.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::timeout;

use super::Executions;
use super::request::check_key;
use super::start::{DedupKey, Results, Start};
use crate::runtime::clock;
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use noetl_domain::execution::{Creation, dedup_scope};
use noetl_domain::ids::Id;
use noetl_domain::tenant::{Caller, DEFAULT, Scope};
use noetl_storage::dedup::{self, ClaimRow, CurrentClaim, NewClaim};
use noetl_storage::log::LockedLog;

/// Maximum time for writing the audit events of one subscription.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(2);

/// An execution, and the requests for it.
#[derive(Debug)]
pub(super) struct ClaimedExecution {
    pub(super) execution_id: Id,
    /// The execution to create; `None`: it belongs to another call.
    pub(super) creation: Option<Creation>,
    /// Whether another call reserved the key, so that the execution may not exist yet.
    pub(super) reserved: bool,
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

impl Executions {
    /// Claims the dedup keys of the requests that have one. Returns the executions to create, and adds the results of
    /// requests that fail here to `results`.
    pub(super) async fn claim(&self, starts: Vec<Start>, results: &mut Results) -> Vec<ClaimedExecution> {
        let (mut claimed, mut groups) = (Vec::new(), BTreeMap::<DedupKey, Vec<Start>>::new());
        for start in starts {
            match start.key.clone() {
                Some(key) => groups.entry(key).or_default().push(start),
                None => claimed.push(ClaimedExecution {
                    execution_id: start.creation.execution_id,
                    creation: Some(start.creation),
                    reserved: false,
                    starter: Some(start.position),
                    duplicates: Vec::new(),
                    key: None,
                }),
            }
        }
        if groups.is_empty() {
            return claimed;
        }
        match self.claim_keys(&groups).await {
            Ok(mut claims) => {
                for (key, group) in groups {
                    match claims.remove(&key) {
                        Some(claim) => claimed.push(classify_requests(key, group, claim, results)),
                        None => fail(&group, &conflict_without_row(&key).into(), results),
                    }
                }
            }
            Err(error) => groups.values().for_each(|group| fail(group, &error, results)),
        }
        claimed
    }

    /// Claims each key for its first request. Returns the claim that holds each key afterwards.
    async fn claim_keys(
        &self,
        groups: &BTreeMap<DedupKey, Vec<Start>>,
    ) -> Result<HashMap<DedupKey, CurrentClaim>, ServiceError> {
        let mut claims = Vec::with_capacity(groups.len());
        for (DedupKey { scope, key }, group) in groups {
            if let Some(Start { creation, window_seconds, request_hash, .. }) = group.first() {
                let (window_seconds, request_hash) = (*window_seconds, *request_hash);
                let repeated = i64::try_from(group.len() - 1).unwrap_or(i64::MAX);
                claims.push(NewClaim { scope: *scope, key, request_hash, window_seconds, repeated, creation });
            }
        }
        let current = dedup::claim(self.databases.cluster(), &claims).await?;
        let keyed = |claim: CurrentClaim| (DedupKey { scope: claim.scope, key: claim.key.clone() }, claim);
        Ok(current.into_iter().map(keyed).collect())
    }

    /// Settles the claims whose executions are created. If that fails, the next duplicate or the sweeper settles them.
    pub(super) async fn settle(&self, claimed: &[ClaimedExecution], failed: &HashMap<Id, ServiceError>) {
        let own = claimed.iter().filter(|one| one.key.is_some() && one.creation.is_some());
        let created = own.map(|one| one.execution_id).filter(|id| !failed.contains_key(id));
        self.settle_ids(&created.map(Id::get).collect::<Vec<i64>>()).await;
    }

    pub(super) async fn settle_ids(&self, created: &[i64]) {
        if created.is_empty() {
            return;
        }
        if let Err(error) = dedup::settle(self.databases.cluster(), created).await {
            tracing::warn!(%error, claims = created.len(), "could not settle dedup claims; the sweeper will");
        }
    }

    /// Writes an audit event for each duplicate to its subscription's log. This is best effort: the response does not
    /// depend on it.
    pub(super) async fn audit_duplicates(&self, claimed: &[ClaimedExecution], caller: &Caller) {
        let mut by_scope: BTreeMap<i64, Vec<&ClaimedExecution>> = BTreeMap::new();
        for one in claimed.iter().filter(|one| !one.duplicates.is_empty()) {
            if let Some(key) = one.key.as_ref().filter(|key| key.scope > 0) {
                by_scope.entry(key.scope).or_default().push(one);
            }
        }
        for (scope, duplicates) in by_scope {
            let audit = timeout(AUDIT_TIMEOUT, self.audit(Id::new(scope), &duplicates, caller)).await;
            if !matches!(audit, Ok(Ok(()))) {
                metrics::counter!("noetl_duplicate_audits_lost_total").increment(1);
                tracing::warn!(subscription = scope, ?audit, "could not write audit events of duplicates");
            }
        }
    }

    async fn audit(
        &self,
        subscription: Id,
        duplicates: &[&ClaimedExecution],
        caller: &Caller,
    ) -> Result<(), ServiceError> {
        let mut log = LockedLog::lock(self.databases.shard_of(subscription), subscription).await?;
        let Some(row) = log.subscription(&caller.scope).await? else {
            return Ok(());
        };
        let mut last = log.last_event_id().await?.unwrap_or(row.last_event_id);
        let mut events = Vec::new();
        for one in duplicates {
            let key = one.key.as_ref().map_or("", |key| &key.key);
            for duplicate in &one.duplicates {
                last = self.ids.next_after(last).await?;
                let differs = duplicate.differs == Some(true);
                events.push(row.log(caller.actor.as_ref()).deduplicated(
                    last,
                    key,
                    one.execution_id,
                    differs,
                    clock::now(),
                ));
            }
        }
        log.append(&events).await?;
        log.commit().await?;
        self.wake_ups.wake_feed(self.databases.index_of(subscription));
        Ok(())
    }

    /// Returns the claim of a dedup key, expired or not. `Ok(None)`: there is none in the scope. Without a parent, the
    /// key is one of the scope's tenant, or of the tenant `default` if the scope is not restricted.
    #[tracing::instrument(
        level = "debug", name = "executions.dedup_claim", skip_all,
        fields(parent = parent.map(tracing::field::display))
    )]
    pub async fn dedup_claim(
        &self,
        parent: Option<Id>,
        key: &str,
        scope: &Scope,
    ) -> Result<Option<ClaimRow>, ServiceError> {
        check_key("key", key)?;
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

/// Compares the requests under one key with the claim that holds the key: one may start the execution, the others are
/// duplicates. A different request fails if it asks for that.
fn classify_requests(key: DedupKey, group: Vec<Start>, claim: CurrentClaim, results: &mut Results) -> ClaimedExecution {
    let execution_id = claim.execution_id;
    let (mut creation, mut starter, mut duplicates) = (None, None, Vec::new());
    for start in group {
        let differs = claim.request_hash.as_ref().map(|hash| *hash != start.request_hash);
        if start.creation.execution_id == execution_id {
            (creation, starter) = (Some(start.creation), Some(start.position));
        } else if start.rejects_different && differs == Some(true) {
            results.insert(start.position, Err(mismatch(&key, execution_id).into()));
        } else {
            duplicates.push(Duplicate { position: start.position, differs });
        }
    }
    let reserved = claim.reserved && creation.is_none();
    ClaimedExecution { execution_id, creation, reserved, starter, duplicates, key: Some(key) }
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

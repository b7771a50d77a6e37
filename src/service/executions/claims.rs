//! Claiming dedup keys, and finishing the claims of other callers.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::timeout;

use super::Executions;
use super::answer::Answer;
use super::request::Ready;
use crate::runtime::clock;
use crate::service::error::{Rejection, RejectionCode, ServiceError};
use noetl_domain::actor::Actor;
use noetl_domain::execution::Creation;
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_storage::dedup::{self, CurrentClaim, NewClaim};
use noetl_storage::error::StorageError;
use noetl_storage::log::LockedLog;

/// Age in seconds from which the sweeper finishes a reserved claim. This is safe while the claimant is alive: both
/// create the execution idempotently under the same id.
const STALE_CLAIM_SECONDS: f64 = 6.0;
/// Number of claims that one query of the sweeper reads.
const SWEEP_PAGE: i64 = 200;
/// Maximum time for writing the audit events of one subscription.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(2);

/// An execution, and the requests for it.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) execution_id: Id,
    /// The execution to create. Another claimant may have created it already. `None`: it is known to exist.
    pub(super) creation: Option<Creation>,
    /// Whether a claim must be settled after the creation.
    reserved: bool,
    /// Position of the request that starts the execution; `None`: a request of another call starts it.
    pub(super) starter: Option<usize>,
    /// Positions of the duplicate requests.
    pub(super) duplicates: Vec<usize>,
    /// Scope and dedup key, for the audit.
    key: Option<(i64, String)>,
}

type Answers = BTreeMap<usize, Answer>;
type Key = (i64, String);

impl Executions {
    /// Claims the dedup keys of the requests that have one. Returns the executions to create, and the results of
    /// requests that already failed.
    pub(super) async fn claim(&self, ready: Vec<Ready>) -> (Vec<Claimed>, Answers) {
        let (keyed, plain): (Vec<Ready>, Vec<Ready>) = ready.into_iter().partition(|one| one.dedup.is_some());
        let mut claimed: Vec<Claimed> = plain.into_iter().map(Claimed::without_key).collect();
        let mut groups: BTreeMap<Key, Vec<Ready>> = BTreeMap::new();
        for one in keyed {
            let scope = one.creation.parent_execution_id.map_or(0, Id::get);
            let key = one.dedup.as_ref().map(|dedup| dedup.key.clone()).unwrap_or_default();
            groups.entry((scope, key)).or_default().push(one);
        }
        let mut answers = Answers::new();
        if groups.is_empty() {
            return (claimed, answers);
        }
        match self.standing(&groups).await {
            Ok(mut standing) => {
                for (key, group) in groups {
                    match standing.remove(&key) {
                        Some(claim) => claimed.push(classify_requests(key, group, claim, &mut answers)),
                        None => fail(&group, &conflict_without_row(&key), &mut answers),
                    }
                }
            }
            Err(error) => groups.values().for_each(|group| fail(group, &error, &mut answers)),
        }
        (claimed, answers)
    }

    /// Claims each key for its first request. Returns the claim that holds each key afterwards.
    async fn standing(&self, groups: &BTreeMap<Key, Vec<Ready>>) -> Result<HashMap<Key, CurrentClaim>, ServiceError> {
        let first = |((scope, key), group): (&Key, &Vec<Ready>)| {
            let first = group.first()?;
            Some((*scope, key.clone(), first.hash, first.window_seconds, first.creation.clone()))
        };
        let firsts: Vec<_> = groups.iter().filter_map(first).collect();
        let claims: Vec<NewClaim<'_>> = firsts
            .iter()
            .map(|(scope, key, request_hash, window_seconds, creation)| NewClaim {
                scope: *scope,
                key,
                request_hash: *request_hash,
                window_seconds: *window_seconds,
                creation,
            })
            .collect();
        let standing = dedup::claim(self.databases.cluster(), &claims).await?;
        Ok(standing.into_iter().map(|claim| ((claim.scope, claim.key.clone()), claim)).collect())
    }

    /// Settles the claims whose executions are created. If that fails, the next duplicate or the sweeper settles them.
    pub(super) async fn settle(&self, claimed: &[Claimed], failed: &BTreeMap<ShardIndex, ServiceError>) {
        let created = claimed.iter().filter(|one| one.reserved).map(|one| one.execution_id);
        let created = created.filter(|id| !failed.contains_key(&self.databases.index_of(*id)));
        self.settle_ids(&created.map(Id::get).collect::<Vec<i64>>()).await;
    }

    async fn settle_ids(&self, created: &[i64]) {
        if created.is_empty() {
            return;
        }
        if let Err(error) = dedup::settle(self.databases.cluster(), created).await {
            tracing::warn!(%error, claims = created.len(), "could not settle dedup claims; the sweeper will");
        }
    }

    /// Finishes abandoned claims: creates their executions and settles them. Claims of an unreachable shard do not
    /// delay the others. Returns the number of claims found.
    #[tracing::instrument(level = "debug", name = "executions.sweep", skip_all)]
    pub async fn sweep(&self) -> Result<usize, ServiceError> {
        let (mut found, mut last) = (0, Id::new(-1));
        loop {
            let stale = dedup::stale(self.databases.cluster(), STALE_CLAIM_SECONDS, last, SWEEP_PAGE).await?;
            let Some((behind, _)) = stale.last() else {
                return Ok(found);
            };
            (found, last) = (found + stale.len(), *behind);
            self.finish(stale).await;
        }
    }

    async fn finish(&self, stale: Vec<(Id, Result<Creation, StorageError>)>) {
        let mut creations = Vec::new();
        for (id, creation) in stale {
            match creation {
                Ok(creation) => creations.push(creation),
                Err(error) => tracing::error!(execution = %id, %error, "an abandoned dedup claim can't be read"),
            }
        }
        let failed = self.create(creations.iter()).await;
        let ids = creations.iter().map(|creation| creation.execution_id);
        let created: Vec<i64> =
            ids.filter(|id| !failed.contains_key(&self.databases.index_of(*id))).map(Id::get).collect();
        self.settle_ids(&created).await;
        tracing::info!(claims = creations.len(), created = created.len(), "finished abandoned dedup claims");
    }

    /// Writes an audit event for each duplicate to its subscription's log. This is best effort: the response does not
    /// depend on it.
    pub(super) async fn audit_duplicates(&self, claimed: &[Claimed], by: Option<&Actor>) {
        let mut by_scope: BTreeMap<i64, Vec<&Claimed>> = BTreeMap::new();
        for one in claimed.iter().filter(|one| !one.duplicates.is_empty()) {
            if let Some((scope, _)) = one.key.as_ref().filter(|(scope, _)| *scope != 0) {
                by_scope.entry(*scope).or_default().push(one);
            }
        }
        for (scope, duplicates) in by_scope {
            let audit = timeout(AUDIT_TIMEOUT, self.audit(Id::new(scope), &duplicates, by)).await;
            if !matches!(audit, Ok(Ok(()))) {
                metrics::counter!("noetl_duplicate_audits_lost_total").increment(1);
                tracing::warn!(subscription = scope, ?audit, "could not write audit events of duplicates");
            }
        }
    }

    async fn audit(&self, subscription: Id, duplicates: &[&Claimed], by: Option<&Actor>) -> Result<(), ServiceError> {
        let mut log = LockedLog::lock(self.databases.shard_of(subscription), subscription).await?;
        let Some(row) = log.subscription().await? else {
            return Ok(());
        };
        let mut last = log.last_event_id().await?.unwrap_or(row.last_event_id);
        let mut events = Vec::new();
        for one in duplicates {
            let key = one.key.as_ref().map_or("", |(_, key)| key);
            for _ in &one.duplicates {
                last = self.ids.next_after(last).await?;
                events.push(row.log(by).deduplicated(last, key, one.execution_id, clock::now()));
            }
        }
        log.append(&events).await?;
        log.commit().await?;
        self.wake_ups.wake_feed(self.databases.index_of(subscription));
        Ok(())
    }
}

impl Claimed {
    fn without_key(ready: Ready) -> Self {
        let Ready { position, creation, .. } = ready;
        let execution_id = creation.execution_id;
        Self {
            execution_id,
            creation: Some(creation),
            reserved: false,
            starter: Some(position),
            duplicates: Vec::new(),
            key: None,
        }
    }
}

/// Compares the requests under one key with the claim that holds the key: one may start the execution, the others are
/// duplicates. A different request under the same key fails.
fn classify_requests(key: Key, group: Vec<Ready>, claim: CurrentClaim, answers: &mut Answers) -> Claimed {
    let execution_id = claim.execution_id;
    let (same, other): (Vec<Ready>, Vec<Ready>) =
        group.into_iter().partition(|one| claim.request_hash.as_ref().is_none_or(|hash| *hash == one.hash));
    fail(&other, &mismatch(&key, execution_id).into(), answers);
    let starter = same.iter().find(|one| one.creation.execution_id == execution_id).map(|one| one.position);
    let duplicates = same.iter().map(|one| one.position).filter(|position| Some(*position) != starter).collect();
    let reserved = claim.reserved.is_some();
    Claimed { execution_id, creation: claim.reserved, reserved, starter, duplicates, key: Some(key) }
}

fn fail(group: &[Ready], error: &ServiceError, answers: &mut Answers) {
    answers.extend(group.iter().map(|one| (one.position, Err(error.clone()))));
}

fn mismatch((_, key): &Key, owner: Id) -> Rejection {
    let shown: String = key.chars().take(64).collect();
    let message = format!("the dedup key {shown:?} belongs to execution {owner}, which a different request started");
    Rejection::new(RejectionCode::IdempotencyMismatch, "dedup.key", message)
}

fn conflict_without_row((_, key): &Key) -> ServiceError {
    let shown: String = key.chars().take(64).collect();
    Rejection::invalid("dedup.key", format!("the dedup key {shown:?} can't be claimed")).into()
}

//! Dedup claims, compared with the executions that they name.

use super::kinds::Kind;
use super::reach::Reach;
use super::{Difference, Differences, LIMIT, Repairer, Subject};
use crate::executions::STALE_CLAIM_SECONDS;
use noetl_storage::check::Pages;
use noetl_storage::check::claims::{self, ClaimKey};
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::executions::MAX_WINDOW_SECONDS;

/// Age in seconds from which a reserved claim is unfinished.
const OLD_CLAIM_SECONDS: f64 = 15.0;
const _: () = assert!(OLD_CLAIM_SECONDS > 2.0 * STALE_CLAIM_SECONDS, "servers finish an abandoned claim long before");

pub(super) struct Claims<'a> {
    pub(super) reach: &'a Reach,
}

impl Subject for Claims<'_> {
    type Key = ClaimKey;
    /// The execution that the claim names.
    type Detail = i64;
    const NAME: &'static str = "dedup claims";

    fn database(&self) -> &Database {
        self.reach.cluster()
    }

    async fn page(&self, pages: &mut Pages<'_>, after: Option<&ClaimKey>) -> Result<Vec<ClaimKey>, ServiceError> {
        let start = ClaimKey { scope: i64::MIN, key: String::new() };
        Ok(claims::keys(pages, after.unwrap_or(&start), LIMIT).await?)
    }

    async fn examine(&self, keys: &[ClaimKey]) -> Result<Differences<Self>, ServiceError> {
        let facts = claims::facts(self.database(), keys, OLD_CLAIM_SECONDS, MAX_WINDOW_SECONDS).await?;
        let settled = facts.iter().filter(|claim| !claim.reserved && !claim.expired);
        let absent = self.reach.absent(settled.map(|claim| claim.execution_id)).await?;
        let difference = facts.into_iter().filter_map(|claim| {
            let kind = match (claim.reserved, claim.old) {
                (true, true) => Kind::UnfinishedClaim,
                (false, _) if !claim.expired && absent.contains(&claim.execution_id) => Kind::ClaimWithoutExecution,
                (true, false) | (false, _) => return None,
            };
            let shown: String = claim.key.chars().take(64).collect();
            let shard = self.reach.owner_of(claim.execution_id);
            let description =
                format!("key {shown:?} in scope {}: execution {} on shard {shard}", claim.scope, claim.execution_id);
            let key = ClaimKey { scope: claim.scope, key: claim.key };
            Some(Difference { kind, key, description, detail: claim.execution_id })
        });
        Ok(difference.collect())
    }

    async fn repair(&self, found: &Differences<Self>, repairer: &Repairer) -> Result<(), ServiceError> {
        if found.iter().any(|one| one.kind == Kind::UnfinishedClaim) {
            repairer.executions.sweep().await?;
        }
        let without = found.iter().filter(|one| one.kind == Kind::ClaimWithoutExecution);
        let without: Vec<(ClaimKey, i64)> = without.map(|one| (one.key.clone(), one.detail)).collect();
        claims::release(self.database(), &without).await?;
        Ok(())
    }
}

//! Rows of the executions' list, compared with their logs, their dedup claims, their catalog entries and their parents.

use std::collections::BTreeSet;

use chrono::TimeDelta;

use super::kinds::Kind;
use super::reach::Reach;
use super::{Difference, Differences, LIMIT, Repairer, Subject};
use noetl_domain::execution::{ClaimedKey, dedup_scope};
use noetl_domain::ids::Id;
use noetl_domain::shard::ShardIndex;
use noetl_domain::tenant::Scope;
use noetl_storage::check::Pages;
use noetl_storage::check::claims::{self, ClaimKey, DescribedClaim};
use noetl_storage::check::executions::{self, ExecutionFacts};
use noetl_storage::check::snapshots;
use noetl_storage::pools::Database;
use noetl_use_cases::error::ServiceError;
use noetl_use_cases::projections::AdvanceProjections;

/// A window that ends within this number of seconds needs no claim. The clocks of two databases may differ.
const MARGIN_SECONDS: f64 = 5.0;
/// Age in seconds from which an event is missing in the row of its execution. The projector stores it long before.
const OLD_EVENT_SECONDS: f64 = 60.0;

pub(super) struct ListRows<'a> {
    pub(super) reach: &'a Reach,
    pub(super) shard: ShardIndex,
}

impl Subject for ListRows<'_> {
    type Key = i64;
    /// The claim to make again.
    type Detail = Option<DescribedClaim>;
    const NAME: &'static str = "executions";

    fn database(&self) -> &Database {
        self.reach.shard(self.shard)
    }

    async fn page(&self, pages: &mut Pages<'_>, after: Option<&i64>) -> Result<Vec<i64>, ServiceError> {
        Ok(executions::ids(pages, after.copied().unwrap_or(i64::MIN), LIMIT).await?)
    }

    async fn examine(&self, keys: &[i64]) -> Result<Differences<Self>, ServiceError> {
        let own = self.reach.own(self.shard, keys.iter().copied());
        let rows = executions::facts(self.database(), &own, OLD_EVENT_SECONDS).await?;
        let described: Vec<DescribedClaim> = rows.iter().filter_map(described_claim).collect();
        let unclaimed = claims::missing(self.reach.cluster(), &described, MARGIN_SECONDS).await?;
        let entries: BTreeSet<i64> = rows.iter().map(|row| row.catalog_id).filter(|id| *id != 0).collect();
        let entries: Vec<i64> = entries.into_iter().collect();
        let entries = executions::absent_entries(self.reach.cluster(), &entries).await?;
        let parents = rows.iter().filter_map(|row| row.parent_execution_id).filter(|parent| *parent != 0);
        let parents = self.reach.absent(parents).await?;
        let mut found = Vec::new();
        for row in &rows {
            let id = row.execution_id;
            let mut add = |kind, description: String, detail| {
                found.push(Difference { kind, key: id, description, detail });
            };
            match (row.last_of_log, row.last_event_id) {
                (None, _) if !self.reach.may_be_dropped(id) => {
                    add(Kind::ListRowWithoutLog, format!("execution {id} on shard {}", self.shard), None);
                }
                (Some(end), Some(listed)) if listed > end => {
                    let description = format!("execution {id} on shard {}: {listed} is after {end}", self.shard);
                    add(Kind::ListRowAfterLog, description, None);
                }
                (Some(_), Some(listed)) if row.behind => {
                    let description = format!("execution {id} on shard {}: ends with {listed}", self.shard);
                    add(Kind::ListRowBehindLog, description, None);
                }
                _ => {}
            }
            if row.misindexed {
                add(Kind::LabelsNotIndexed, format!("execution {id} on shard {}", self.shard), None);
            }
            if unclaimed.contains(&id) {
                let claim = described.iter().find(|claim| claim.execution_id == id).cloned();
                add(Kind::ExecutionWithoutClaim, format!("execution {id} on shard {}", self.shard), claim);
            }
            if entries.contains(&row.catalog_id) {
                add(Kind::UnknownCatalogEntry, format!("entry {} of execution {id}", row.catalog_id), None);
            }
            if let Some(parent) = row.parent_execution_id.filter(|parent| parents.contains(parent)) {
                let on = self.reach.owner_of(parent);
                add(Kind::MissingParent, format!("parent {parent} on shard {on} of execution {id}"), None);
            }
        }
        Ok(found)
    }

    async fn repair(&self, found: &Differences<Self>, repairer: &Repairer) -> Result<(), ServiceError> {
        let of = |kind| found.iter().filter(move |one| one.kind == kind);
        let claims: Vec<_> = of(Kind::ExecutionWithoutClaim).filter_map(|one| one.detail.clone()).collect();
        claims::restore(self.reach.cluster(), &claims).await?;
        let unlogged: Vec<i64> = of(Kind::ListRowWithoutLog).map(|one| one.key).collect();
        executions::delete_unlogged(self.database(), &unlogged).await?;
        let misindexed: Vec<i64> = of(Kind::LabelsNotIndexed).map(|one| one.key).collect();
        executions::index_labels(self.database(), &misindexed).await?;
        let wrong = [Kind::ListRowAfterLog, Kind::ListRowBehindLog].into_iter().flat_map(of);
        let wrong: BTreeSet<i64> = wrong.map(|one| one.key).collect();
        build_again(self.database(), &wrong.into_iter().collect::<Vec<i64>>(), repairer).await
    }
}

/// Builds rows of the executions' list and snapshots from the logs.
pub(super) async fn build_again(shard: &Database, ids: &[i64], repairer: &Repairer) -> Result<(), ServiceError> {
    if ids.is_empty() {
        return Ok(());
    }
    // An advance stores nothing while the stored snapshot has all events.
    snapshots::delete(shard, ids).await?;
    executions::reset(shard, ids).await?;
    let advanced = repairer.projections.advance(ids.iter().copied().map(Id::new).collect(), &Scope::Unrestricted).await;
    // A log that is not an execution's has no row.
    let failed = advanced.into_values().filter_map(Result::err).find(|error| !error.is_rejection());
    failed.map_or(Ok(()), Err)
}

/// Returns the claim that the started event of an execution describes. A key that can't be read counts as none.
fn described_claim(row: &ExecutionFacts) -> Option<DescribedClaim> {
    let claimed: ClaimedKey = plain_json::parse(row.dedup.as_ref()?.as_bytes()).ok()?;
    let seen_at = row.start_time?;
    let scope = dedup_scope(row.parent_execution_id.map(Id::new), &row.tenant_id);
    Some(DescribedClaim {
        execution_id: row.execution_id,
        request_hash: claimed.hash(),
        seen_at,
        expires_at: seen_at.checked_add_signed(TimeDelta::seconds(claimed.window_seconds.into()))?,
        key: ClaimKey { scope, key: claimed.key },
    })
}
